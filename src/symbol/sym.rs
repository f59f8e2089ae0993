//! One symbol, as small as it can be.

/// ELF symbol binding, the upper half of `st_info`; unknown values pass through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SymbolBinding(pub u8);

impl SymbolBinding {
    /// Visible in its object file alone.
    pub const LOCAL: SymbolBinding = SymbolBinding(0);
    /// Visible everywhere.
    pub const GLOBAL: SymbolBinding = SymbolBinding(1);
    /// Global, and yields to another definition.
    pub const WEAK: SymbolBinding = SymbolBinding(2);
    /// GNU: one definition in the whole process.
    pub const UNIQUE: SymbolBinding = SymbolBinding(10);
}

/// ELF symbol type, the lower half of `st_info`; unknown values pass through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SymbolType(pub u8);

impl SymbolType {
    /// A label without a type.
    pub const NOTYPE: SymbolType = SymbolType(0);
    /// Data.
    pub const OBJECT: SymbolType = SymbolType(1);
    /// Code.
    pub const FUNC: SymbolType = SymbolType(2);
    /// Code that returns the address of the code to use.
    pub const GNU_IFUNC: SymbolType = SymbolType(10);
}

/// A named range of addresses.
///
/// Addresses are those of the table that holds it (see [`Addressing`](super::Addressing)). Its name lives
/// with the table and is asked from there, so that a symbol is 24 bytes and can be copied about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// First address.
    pub start: u64,
    /// First address past it; equal to `start` if its size is unknown.
    pub end: u64,
    /// Where its table has the name.
    pub(super) name: u32,
    /// ELF binding.
    pub binding: SymbolBinding,
    /// ELF type.
    pub kind: SymbolType,
    /// Which of the DSO's tables it is from, while they are put together.
    pub(super) origin: u8,
}

const _: () = assert!(size_of::<Symbol>() <= 24);

impl Symbol {
    /// Whether `addr` is in the range, or is the start of a symbol of unknown size.
    pub fn contains(&self, addr: u64) -> bool {
        addr >= self.start && (addr < self.end || (addr == self.start && self.end == self.start))
    }

    /// Bytes from start to end.
    pub fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}
