//! Which records change the session, and how.

use super::Session;
use crate::abi::record::RecordType;
use crate::error::Result;
use crate::event::Record;
use crate::event::ksymbol::Ksymbol;
use crate::event::mmap::Mmap;
use crate::event::task::{Comm, Fork, Namespaces};
use crate::evlist::Evlist;

impl Session {
    /// Takes note of what a record says of threads and maps; of other records of nothing. An error if the record is
    /// too short for its type.
    pub fn apply(&mut self, record: Record<'_>, evlist: &Evlist) -> Result<()> {
        let ty = record.ty();
        let mode = record.cpumode();
        match ty {
            RecordType::FORK | RecordType::EXIT => {
                let task = Fork::parse(record)?;
                let machine = self.machine_of(mode, None, task.pid);
                match ty {
                    RecordType::FORK => self.fork(machine, &task),
                    _ => self.exit(machine, &task),
                }
                return Ok(());
            }
            RecordType::MMAP
            | RecordType::MMAP2
            | RecordType::COMM
            | RecordType::NAMESPACES
            | RecordType::KSYMBOL => {}
            _ => return Ok(()),
        }
        // Without an event there is nothing that tells where the trailer begins.
        let none = Default::default();
        let trailer = match (ty, evlist.trailer_of(record.bytes)) {
            (_, Some(trailer)) => trailer,
            (RecordType::MMAP | RecordType::MMAP2, None) => return Ok(()),
            (_, None) => &none,
        };
        match ty {
            RecordType::COMM => {
                let comm = Comm::parse(record, trailer)?;
                let machine = self.machine_of(mode, None, comm.pid);
                self.comm(machine, &comm);
            }
            RecordType::NAMESPACES => {
                let namespaces = Namespaces::parse(record, trailer)?;
                let machine = self.machine_of(mode, None, namespaces.pid);
                self.namespaces(machine, &namespaces);
            }
            RecordType::KSYMBOL => {
                let ksymbol = Ksymbol::parse(record, trailer)?;
                let machine = self.machine_of(mode, None, -1);
                self.ksymbol(machine, &ksymbol);
            }
            _ => {
                let mmap = Mmap::parse(record, trailer)?;
                let machine = self.machine_of(mode, None, mmap.pid);
                self.mmap(machine, &mmap);
            }
        }
        Ok(())
    }
}
