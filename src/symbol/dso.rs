//! The symbols of one DSO, whichever way they were loaded, and what is handed out of them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lazy::LazyIndex;
use super::name_search::merged;
use super::sym::{Symbol, SymbolBinding, SymbolType};
use super::table::SymbolTable;

/// What the addresses of a table count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// The start of the runtime file: look up `address - map start + map page offset`.
    FileOffset,
    /// Nothing: look up the sampled address itself. The kernel, and code that was made at run time.
    Absolute,
}

/// The symbols of one DSO. They stay as they are: a reload makes another one.
pub struct DsoSymbols {
    symbols: Symbols,
    addressing: Addressing,
    origin: PathBuf,
    /// Of a kernel module: the file offset of its `.text`, which its map starts with.
    text_offset: Option<u64>,
}

enum Symbols {
    Lazy(Box<LazyIndex>),
    Eager(Box<SymbolTable>),
}

impl DsoSymbols {
    /// Wraps an index.
    pub fn lazy(index: LazyIndex, origin: &Path) -> Self {
        let symbols = Symbols::Lazy(Box::new(index));
        DsoSymbols { symbols, addressing: Addressing::FileOffset, origin: origin.into(), text_offset: None }
    }

    /// Wraps a table.
    pub fn eager(table: SymbolTable, addressing: Addressing, origin: &Path) -> Self {
        let symbols = Symbols::Eager(Box::new(table));
        DsoSymbols { symbols, addressing, origin: origin.into(), text_offset: None }
    }

    /// Sets what [`DsoSymbols::text_offset`] tells.
    pub fn with_text_offset(mut self, offset: Option<u64>) -> Self {
        self.text_offset = offset;
        self
    }

    /// What addresses count from.
    pub fn addressing(&self) -> Addressing {
        self.addressing
    }

    /// The file that the symbols came from.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// Of a kernel module's file: the file offset of `.text`, which is the page offset of the module's map.
    pub fn text_offset(&self) -> Option<u64> {
        self.text_offset
    }

    /// Whether names are read when they are needed.
    pub fn is_lazy(&self) -> bool {
        matches!(self.symbols, Symbols::Lazy(_))
    }

    /// The symbol whose range has the address; of several, the innermost.
    #[inline]
    pub fn find(&self, addr: u64) -> Option<SymbolRef<'_>> {
        let symbol = match &self.symbols {
            Symbols::Lazy(index) => index.find(addr),
            Symbols::Eager(table) => table.find(addr),
        }?;
        Some(SymbolRef { owner: self, symbol })
    }

    /// As [`DsoSymbols::find`], but nothing is kept of the symbol: its name is read each time that it is asked for.
    #[inline]
    pub fn locate(&self, addr: u64) -> Option<Located<'_>> {
        match &self.symbols {
            Symbols::Lazy(index) => {
                let (group, start, end) = index.locate(addr)?;
                Some(Located { owner: self, start, end, at: At::Group(group) })
            }
            Symbols::Eager(table) => {
                let symbol = table.find(addr)?;
                Some(Located { owner: self, start: symbol.start, end: symbol.end, at: At::Symbol(symbol) })
            }
        }
    }

    /// The lowest symbol of that name (as shown), or else the lowest whose name without its default
    /// `@@VERSION` is that.
    pub fn find_by_name(&self, name: &[u8]) -> Option<SymbolRef<'_>> {
        let symbol = match &self.symbols {
            Symbols::Lazy(index) => index.find_by_name(name),
            Symbols::Eager(table) => table.find_by_name(name),
        }?;
        Some(SymbolRef { owner: self, symbol })
    }

    /// Where symbols are whose names are meant, given bytes of which each has some in its name as the file has it: start
    /// and end, sorted, those that touch made one. No address outside has such a symbol; one inside may have another
    /// that lies within. `None` if that can't be told, or they are many.
    pub fn ranges_of(
        &self,
        parts: &[Box<[u8]>],
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Option<Vec<(u64, u64)>> {
        merged(match &self.symbols {
            Symbols::Lazy(index) => index.ranges_of(parts, is_meant)?,
            Symbols::Eager(table) => table.ranges_of(parts, is_meant).ok()?,
        })
    }

    /// All symbols by address. With a lazy index this makes every one of them.
    pub fn iter(&self) -> Box<dyn Iterator<Item = SymbolRef<'_>> + '_> {
        let of = |symbol| SymbolRef { owner: self, symbol };
        match &self.symbols {
            Symbols::Lazy(index) => Box::new(index.iter().map(of)),
            Symbols::Eager(table) => Box::new(table.iter().map(of)),
        }
    }

    /// Start and end of every symbol, by address; makes none.
    pub fn ranges(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        match &self.symbols {
            Symbols::Lazy(index) => Box::new(index.ranges()),
            Symbols::Eager(table) => Box::new(table.iter().map(|s| (s.start, s.end))),
        }
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        match &self.symbols {
            Symbols::Lazy(index) => index.len(),
            Symbols::Eager(table) => table.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        match &self.symbols {
            Symbols::Lazy(index) => index.is_empty(),
            Symbols::Eager(table) => table.is_empty(),
        }
    }

    /// How many symbols are in memory with their names.
    pub fn materialized(&self) -> usize {
        match &self.symbols {
            Symbols::Lazy(index) => index.materialized(),
            Symbols::Eager(table) => table.len(),
        }
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + match &self.symbols {
                Symbols::Lazy(index) => size_of::<LazyIndex>() + index.memory(),
                Symbols::Eager(table) => size_of::<SymbolTable>() + table.memory(),
            }
    }

    /// Drops what can be made again: the index by name. Returns the bytes freed.
    pub fn shrink(&self) -> usize {
        match &self.symbols {
            Symbols::Lazy(index) => index.shrink(),
            Symbols::Eager(table) => table.shrink(),
        }
    }

    fn name(&self, symbol: &Symbol) -> &[u8] {
        match &self.symbols {
            Symbols::Lazy(index) => index.name(symbol),
            Symbols::Eager(table) => table.name(symbol),
        }
    }
}

/// Where a symbol is, and a way to its name.
#[derive(Clone, Copy)]
pub struct Located<'a> {
    owner: &'a DsoSymbols,
    /// First address, as the table counts.
    pub start: u64,
    /// First address past it.
    pub end: u64,
    at: At<'a>,
}

#[derive(Clone, Copy)]
enum At<'a> {
    /// Of a lazy index, by its first entry.
    Group(usize),
    Symbol(&'a Symbol),
}

impl<'a> Located<'a> {
    /// The name as shown; `None` if the file can't be read any more.
    pub fn name(&self) -> Option<Cow<'a, [u8]>> {
        match (self.at, &self.owner.symbols) {
            (At::Symbol(symbol), _) => Some(Cow::Borrowed(self.owner.name(symbol))),
            (At::Group(group), Symbols::Lazy(index)) => index.name_of(group),
            (At::Group(_), Symbols::Eager(_)) => None,
        }
    }
}

/// A symbol, borrowed from the table of its DSO.
#[derive(Clone, Copy)]
pub struct SymbolRef<'a> {
    owner: &'a DsoSymbols,
    symbol: &'a Symbol,
}

impl<'a> SymbolRef<'a> {
    /// Its range and attributes. The address of what is returned is the symbol's identity within its table.
    pub fn symbol(self) -> &'a Symbol {
        self.symbol
    }

    /// First address, as the table counts.
    pub fn start(self) -> u64 {
        self.symbol.start
    }

    /// First address past it.
    pub fn end(self) -> u64 {
        self.symbol.end
    }

    /// ELF binding.
    pub fn binding(self) -> SymbolBinding {
        self.symbol.binding
    }

    /// ELF type.
    pub fn kind(self) -> SymbolType {
        self.symbol.kind
    }

    /// The name as shown, demangled if that was asked for. Usually UTF-8, but nothing makes it so.
    pub fn name(self) -> &'a [u8] {
        self.owner.name(self.symbol)
    }

    /// The name as text, with what is no UTF-8 replaced.
    pub fn name_lossy(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name())
    }

    /// A handle that keeps the DSO's table. `None` if `table` is not the one the symbol is from.
    pub fn hold(self, table: &Arc<DsoSymbols>) -> Option<HeldSymbol> {
        std::ptr::eq(self.owner, &**table).then(|| HeldSymbol { table: table.clone(), symbol: *self.symbol })
    }
}

impl std::fmt::Debug for SymbolRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}-{:#x} {}", self.symbol.start, self.symbol.end, self.name_lossy())
    }
}

/// A symbol together with the table of its DSO, which can't be evicted while this is held.
#[derive(Clone)]
pub struct HeldSymbol {
    table: Arc<DsoSymbols>,
    symbol: Symbol,
}

impl HeldSymbol {
    /// The symbol.
    pub fn get(&self) -> SymbolRef<'_> {
        SymbolRef { owner: &self.table, symbol: &self.symbol }
    }

    /// The table it belongs to.
    pub fn table(&self) -> &Arc<DsoSymbols> {
        &self.table
    }
}
