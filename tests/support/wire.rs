//! Reads and writes in either byte order. Test inputs are trusted: a read past the end panics.

/// Byte order of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub const BOTH: [Order; 2] = [Order::Little, Order::Big];

    pub fn other(self) -> Order {
        match self {
            Order::Little => Order::Big,
            Order::Big => Order::Little,
        }
    }

    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let raw = bytes[at..at + 2].try_into().unwrap();
        match self {
            Order::Little => u16::from_le_bytes(raw),
            Order::Big => u16::from_be_bytes(raw),
        }
    }

    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let raw = bytes[at..at + 4].try_into().unwrap();
        match self {
            Order::Little => u32::from_le_bytes(raw),
            Order::Big => u32::from_be_bytes(raw),
        }
    }

    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let raw = bytes[at..at + 8].try_into().unwrap();
        match self {
            Order::Little => u64::from_le_bytes(raw),
            Order::Big => u64::from_be_bytes(raw),
        }
    }
}

/// A growing buffer in one byte order; the calls chain.
#[derive(Clone, Debug)]
pub struct Bytes {
    pub order: Order,
    pub out: Vec<u8>,
}

impl Bytes {
    pub fn new(order: Order) -> Self {
        Bytes { order, out: Vec::new() }
    }

    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.out.push(v);
        self
    }

    pub fn u16(&mut self, v: u16) -> &mut Self {
        match self.order {
            Order::Little => self.out.extend(v.to_le_bytes()),
            Order::Big => self.out.extend(v.to_be_bytes()),
        }
        self
    }

    pub fn u32(&mut self, v: u32) -> &mut Self {
        match self.order {
            Order::Little => self.out.extend(v.to_le_bytes()),
            Order::Big => self.out.extend(v.to_be_bytes()),
        }
        self
    }

    pub fn u64(&mut self, v: u64) -> &mut Self {
        match self.order {
            Order::Little => self.out.extend(v.to_le_bytes()),
            Order::Big => self.out.extend(v.to_be_bytes()),
        }
        self
    }

    pub fn u64s(&mut self, vs: impl IntoIterator<Item = u64>) -> &mut Self {
        for v in vs {
            self.u64(v);
        }
        self
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }

    /// Text in a field of `width` bytes, cut or padded with NUL.
    pub fn fixed(&mut self, text: &str, width: usize) -> &mut Self {
        let mut field = text.as_bytes().to_vec();
        field.resize(width, 0);
        self.raw(&field)
    }

    /// Text with a NUL, padded to a multiple of eight, as kernel records end.
    pub fn name(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes()).u8(0).pad8()
    }

    /// A feature section's string: its padded length, then the text.
    pub fn string(&mut self, text: &str) -> &mut Self {
        let len = (text.len() + 1).next_multiple_of(64);
        self.u32(len as u32).fixed(text, len)
    }

    pub fn pad8(&mut self) -> &mut Self {
        let len = self.out.len().next_multiple_of(8);
        self.out.resize(len, 0);
        self
    }

    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}
