//! Build-ids: as records of their own, or within the records of maps.
//!
//! The four styles differ in when a DSO gets its id and where it is put:
//!
//! | style | when | where |
//! |---|---|---|
//! | [`Style::BuildIds`] | a sample hits it | a HEADER_BUILD_ID record before the sample, and the table |
//! | [`Style::BuildIdAll`] | it is mapped | the same before the record of the map |
//! | [`Style::Mmap2BuildIds`] | a sample hits a map of it | a MMAP2 before the sample; all other maps are dropped |
//! | [`Style::Mmap2BuildIdAll`] | it is mapped | in the map's own record, which becomes a MMAP2 |

mod hits;
mod ids;
mod maps;

use rustc_hash::FxHashSet;

pub use ids::{Ids, IdsOptions};

use hits::Hits;

use super::{Context, Order, Stage, Verdict};
use crate::abi::build_id::BuildId;
use crate::abi::feature::Feature;
use crate::abi::misc::CpuMode;
use crate::abi::record::RecordType;
use crate::error::Result;
use crate::event::mmap::Mmap;
use crate::event::{Record, user};
use crate::header::Header;
use crate::header::features::build_ids::{BuildIdEntry, BuildIdTable};
use crate::session::{Dso, DsoKind, HOST, MachinePid};

/// How build-ids are put into the recording; one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// HEADER_BUILD_ID records and the table, of DSOs that samples hit.
    BuildIds,
    /// The same of every mapped DSO.
    BuildIdAll,
    /// One MMAP2 with build-id for each map that samples hit; all other maps are dropped.
    Mmap2BuildIds,
    /// Every map as a MMAP2 with build-id.
    Mmap2BuildIdAll,
}

/// Addresses below this can't be of a 64-bit process's vdso.
const VDSO_64_FROM: u64 = 1 << 32;

/// The stage.
pub struct BuildIds {
    style: Style,
    ids: Ids,
    hits: Hits,
    /// Machine, name and id of DSOs that a HEADER_BUILD_ID record of the stream tells of. A file that was replaced
    /// while it was recorded has a second id under its name.
    announced: FxHashSet<(MachinePid, Box<[u8]>, BuildId)>,
    /// Machines whose kernel map has been given, where maps are given when hit.
    kernels: FxHashSet<MachinePid>,
}

impl BuildIds {
    /// A stage of a style.
    pub fn new(style: Style, ids: Ids) -> Self {
        BuildIds {
            style,
            ids,
            hits: Hits::default(),
            announced: FxHashSet::default(),
            kernels: FxHashSet::default(),
        }
    }

    /// What came of the ids, for the summary and the table.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Whether the BUILD_ID section gets the injected ids.
    pub fn fills_table(&self) -> bool {
        matches!(self.style, Style::BuildIds | Style::BuildIdAll)
    }

    /// MMAP or MMAP2; with samples looked at, the session has it already.
    fn map(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        let mode = record.cpumode();
        let is_kernel = matches!(mode, CpuMode::Kernel | CpuMode::GuestKernel);
        match self.style {
            Style::BuildIds => return Ok(Verdict::Keep),
            Style::Mmap2BuildIds if !is_kernel => return Ok(Verdict::Drop),
            _ => {}
        }
        let Some(trailer) = cx.evlist.trailer_of(record.bytes) else { return Ok(Verdict::Keep) };
        let mmap = Mmap::parse(record, trailer)?;
        let machine = cx.session.machine_of(mode, None, mmap.pid);
        match self.style {
            Style::BuildIds | Style::Mmap2BuildIds => {
                self.kernels.remove(&machine);
                Ok(Verdict::Drop)
            }
            Style::BuildIdAll => {
                let dso = cx.session.dso_of(machine, &mmap);
                if is_32_bit_vdso(dso, mmap.start) || !dso.mark_hit() {
                    return Ok(Verdict::Keep);
                }
                let dso = dso.clone();
                self.announce(&dso, record, cx);
                Ok(Verdict::Keep)
            }
            Style::Mmap2BuildIdAll => Ok(self.map_with_id(record, &mmap, machine, cx)),
        }
    }

    /// Puts a HEADER_BUILD_ID record for the DSO before the record at hand, if its id can be had.
    fn announce(&mut self, dso: &Dso, record: Record<'_>, cx: &mut Context<'_>) {
        let Some(id) = self.ids.of(dso, cx.session) else { return };
        let machine = dso.machine();
        if !self.announced.insert((machine, Box::from(dso.name()), id)) {
            self.ids.was_announced(dso);
            return;
        }
        let (order, misc, name) = (record.order, dso.cpumode().bits(), dso.name());
        cx.insert_before(|out, counts| {
            if user::encode_build_id(out, order, misc, machine, &id, name).is_some() {
                counts.add(RecordType::HEADER_BUILD_ID);
            }
        });
    }

    /// A HEADER_BUILD_ID record of the stream: its DSO needs no other.
    fn recorded_id(&mut self, record: Record<'_>) {
        if let Some(entry) = BuildIdEntry::from_record(record.bytes, record.order)
            && self.ids.add_recorded(&entry)
        {
            let machine = if entry.pid <= 0 && !is_guest(entry.cpumode()) { HOST } else { entry.pid };
            self.announced.extend(entry.build_id().map(|id| (machine, Box::from(entry.filename), id)));
        }
    }
}

/// Whether a cpumode is a guest's.
fn is_guest(mode: CpuMode) -> bool {
    matches!(mode, CpuMode::GuestKernel | CpuMode::GuestUser)
}

/// A 32-bit process's vdso goes by the same name as the 64-bit one's, whose id it must not get.
fn is_32_bit_vdso(dso: &Dso, start: u64) -> bool {
    dso.kind() == DsoKind::Vdso && start < VDSO_64_FROM
}

impl Stage for BuildIds {
    fn order(&self) -> Order {
        match self.style {
            Style::BuildIds => Order::SideBand,
            // A map is given before its first hit by time, not by place: another CPU's earlier sample may stand later.
            Style::Mmap2BuildIds => Order::Time,
            Style::BuildIdAll | Style::Mmap2BuildIdAll => Order::File,
        }
    }

    fn begin(&mut self, header: &Header) -> Result<()> {
        self.ids.set_host(header);
        if let Some(section) = header.feature(Feature::BUILD_ID) {
            for entry in &BuildIdTable::parse(section, header.order).entries {
                self.ids.add_recorded(entry);
            }
        }
        Ok(())
    }

    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        match record.ty() {
            RecordType::SAMPLE if self.order() != Order::File => self.sample(record, cx)?,
            RecordType::CALLCHAIN_DEFERRED if self.order() != Order::File => self.deferred(record, cx)?,
            RecordType::MMAP | RecordType::MMAP2 => return self.map(record, cx),
            // Says where the files of a process's maps are to be looked for.
            RecordType::NAMESPACES if self.order() == Order::File => cx.session.apply(record, cx.evlist)?,
            RecordType::HEADER_BUILD_ID => self.recorded_id(record),
            _ => {}
        }
        Ok(Verdict::Keep)
    }
}
