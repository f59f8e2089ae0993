//! Build-ids within the records of maps.

use crate::abi::record::RecordType;
use crate::event::Record;
use crate::event::mmap::{FileId, MAP_PRIVATE, Mmap, PROT_EXEC, PROT_READ};
use crate::evlist::{Evlist, SampleLayout};
use crate::session::map::Mapping;
use crate::session::{DsoKind, MachinePid};

use super::hits::Hit;
use super::{BuildIds, Context, Verdict, is_32_bit_vdso};

impl BuildIds {
    /// Turns the record of a map into a MMAP2 with its DSO's id, if it has none and one can be had.
    pub(super) fn map_with_id(
        &mut self,
        record: Record<'_>,
        mmap: &Mmap<'_>,
        machine: MachinePid,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let dso = cx.session.dso_of(machine, mmap).clone();
        if is_32_bit_vdso(&dso, mmap.start) {
            return Verdict::Keep;
        }
        let id = self.ids.of(&dso, cx.session);
        if matches!(mmap.file, FileId::BuildId(id) if !id.is_empty()) {
            return Verdict::Keep;
        }
        let Some(id) = id else { return Verdict::Keep };
        let (prot, flags) = match (mmap.file, dso.kind().is_kernel()) {
            // The kernel's maps are not of mmap(2); readers that look for code want them executable.
            (_, true) => (PROT_READ | PROT_EXEC, MAP_PRIVATE),
            (FileId::None, false) => (mmap.prot, MAP_PRIVATE),
            _ => (mmap.prot, mmap.flags),
        };
        let with_id = Mmap { file: FileId::BuildId(id.as_bytes()), prot, flags, ..*mmap };
        let Some(trailer) = cx.evlist.trailer_of(record.bytes) else { return Verdict::Keep };
        let (_, tail) = record.split_trailer(trailer);
        let done = cx.replace(|out, counts| {
            let done = with_id.encode_mmap2(out, record.order, tail);
            match done {
                Some(()) => counts.add(RecordType::MMAP2),
                // A record that would not fit stays as it was.
                None => {
                    out.extend_from_slice(record.bytes);
                    counts.add(record.ty());
                }
            }
            done
        });
        debug_assert!(done.is_some() || mmap.filename.len() > usize::from(u16::MAX) / 2);
        Verdict::Replaced
    }

    /// Puts a MMAP2 for a map that was hit before the record at hand.
    pub(super) fn put_map(
        &mut self,
        hit: &Hit,
        pid: i32,
        trailer: &[u8],
        record: Record<'_>,
        cx: &mut Context<'_>,
    ) {
        let dso = hit.map.dso();
        let id = self.ids.of(dso, cx.session);
        let file = match (&id, dso.file_id()) {
            (Some(id), _) => FileId::BuildId(id.as_bytes()),
            (None, Some(f)) => {
                FileId::Inode { maj: f.maj, min: f.min, ino: f.ino, generation: f.ino_generation }
            }
            (None, None) => FileId::Inode { maj: 0, min: 0, ino: 0, generation: 0 },
        };
        let mut mmap = Mmap {
            misc: hit.mode.bits(),
            pid,
            tid: pid,
            start: hit.map.start(),
            len: hit.map.end() - hit.map.start(),
            pgoff: hit.map.pgoff(),
            file,
            prot: hit.map.prot(),
            flags: hit.map.flags(),
            filename: dso.name(),
        };
        let name;
        match dso.kind() {
            // KSYMBOL records tell of these, and stay.
            DsoKind::Bpf | DsoKind::BpfImage | DsoKind::OutOfLine => return,
            DsoKind::Kernel | DsoKind::Module => {
                (mmap.pid, mmap.tid) = (-1, 0);
                (mmap.prot, mmap.flags) = (PROT_READ | PROT_EXEC, MAP_PRIVATE);
                let machine = cx.session.machines().get(dso.machine());
                if hit.map.mapping() == Mapping::Identity
                    && let Some(machine) = machine
                    && let Some(whole) = machine.kernel_map()
                {
                    // Modules cut the kernel's map into parts; it is given whole, once, under its first name.
                    if !self.kernels.insert(machine.pid()) {
                        return;
                    }
                    (mmap.start, mmap.len) = (whole.start(), whole.end() - whole.start());
                    if let Some(symbol) = machine.reference_symbol() {
                        mmap.pgoff = symbol.address;
                        name = [dso.name(), &symbol.name].concat();
                        mmap.filename = &name;
                    }
                }
            }
            DsoKind::User | DsoKind::Vdso | DsoKind::Anon => {}
        }
        cx.insert_before(|out, counts| {
            if mmap.encode_mmap2(out, record.order, trailer).is_some() {
                counts.add(RecordType::MMAP2);
            }
        });
    }
}

/// The sample's process, and a trailer that says of a record what the sample says of itself.
pub(super) fn trailer_of_sample(
    record: Record<'_>,
    layout: &SampleLayout,
    evlist: &Evlist,
) -> (i32, Vec<u8>) {
    let order = record.order;
    let pid = layout.tid.and_then(|at| order.u32(record.bytes, at)).map_or(-1, u32::cast_signed);
    let Some(evsel) = evlist.evsel_of_sample(record.bytes) else { return (pid, Vec::new()) };
    let trailer = &evsel.trailer;
    let mut out = vec![0; trailer.size];
    let mut copy = |to: Option<usize>, from: Option<usize>| {
        if let (Some(to), Some(from)) = (to, from)
            && let (Some(to), Some(from)) = (out.get_mut(to..to + 8), record.bytes.get(from..from + 8))
        {
            to.copy_from_slice(from);
        }
    };
    copy(trailer.tid, layout.tid);
    copy(trailer.time, layout.time);
    copy(trailer.id_field, layout.id_field);
    copy(trailer.stream_id, layout.stream_id);
    copy(trailer.cpu, layout.cpu);
    copy(trailer.identifier, layout.id);
    (pid, out)
}
