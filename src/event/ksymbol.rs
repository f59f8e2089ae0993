//! KSYMBOL and BPF_EVENT records.

use super::Record;
use crate::bytes::{Cursor, Short, until_nul};
use crate::error::Result;
use crate::evlist::TrailerLayout;

/// A kernel symbol that was registered or unregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// 1: a BPF program; 2: out-of-line code such as ftrace's.
    pub ksym_type: u16,
    /// Bit 0: unregistered.
    pub flags: u16,
    /// The symbol's name, without its NUL.
    pub name: &'a [u8],
}

impl<'a> Ksymbol<'a> {
    /// `ksym_type` of a BPF program.
    pub const TYPE_BPF: u16 = 1;
    /// `ksym_type` of out-of-line code.
    pub const TYPE_OOL: u16 = 2;

    /// Whether the symbol went away.
    pub fn unregister(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Parses a KSYMBOL record.
    pub fn parse(record: Record<'a>, trailer: &TrailerLayout) -> Result<Ksymbol<'a>> {
        let (body, _) = record.split_trailer(trailer);
        let parse = || -> Result<Ksymbol<'a>, Short> {
            let mut c = Cursor::new(body, record.order);
            Ok(Ksymbol {
                addr: c.u64()?,
                len: c.u32()?,
                ksym_type: c.u16()?,
                flags: c.u16()?,
                name: until_nul(c.rest()),
            })
        };
        parse().map_err(|short| record.error(format!("too short: {short}")))
    }
}

/// A BPF program that was loaded or unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// 1: loaded; 2: unloaded.
    pub ty: u16,
    /// Flags, none defined.
    pub flags: u16,
    /// Program id.
    pub id: u32,
    /// Program tag.
    pub tag: [u8; 8],
}

impl BpfEvent {
    /// Parses a BPF_EVENT record.
    pub fn parse(record: Record<'_>) -> Result<BpfEvent> {
        let parse = || -> Result<BpfEvent, Short> {
            let mut c = Cursor::new(record.body(), record.order);
            let (ty, flags, id) = (c.u16()?, c.u16()?, c.u32()?);
            let mut tag = [0; 8];
            tag.copy_from_slice(c.take(8)?);
            Ok(BpfEvent { ty, flags, id, tag })
        };
        parse().map_err(|short| record.error(format!("too short: {short}")))
    }
}
