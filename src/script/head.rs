//! Keeps what a recording says about itself, and throws its records away.

use std::ops::Range;
use std::sync::Arc;

use crate::abi::feature::Feature;
use crate::abi::record::RecordType;
use crate::error::Result;
use crate::event::{Record, user};
use crate::evlist::Evlist;
use crate::header::Header;
use crate::reader::Block;
use crate::stage::HeadRecords;
use crate::writer::Sink;

/// The header, as it becomes known.
pub(super) struct Head {
    pub header: Header,
    /// Whether it comes as records.
    pub from_pipe: bool,
}

impl HeadRecords for Head {
    fn head_record(&mut self, record: Record<'_>, evlist: &mut Evlist) -> Result<bool> {
        if !self.from_pipe {
            return Ok(false);
        }
        match record.ty() {
            RecordType::HEADER_ATTR => {
                let entry = user::HeaderAttr::parse(record)?.to_entry(record.order);
                evlist.push(entry.attr.clone(), entry.ids.clone());
                self.header.attrs.push(entry);
            }
            RecordType::HEADER_FEATURE => {
                let (id, bytes) = user::parse_feature(record)?;
                if let Ok(id) = u32::try_from(id) {
                    self.header.set_feature(Feature(id), bytes.to_vec());
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn payload(&mut self, _piece: &[u8]) -> Result<()> {
        Ok(())
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn events_are_known(&self) -> bool {
        !self.from_pipe
    }

    fn front(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// Takes records nowhere.
pub(super) struct Nowhere;

impl Sink for Nowhere {
    fn front(&mut self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn bytes(&mut self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn kept(&mut self, _block: &Arc<Block>, _range: Range<usize>) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> Result<u64> {
        Ok(0)
    }
}
