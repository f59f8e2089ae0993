//! Callchains of samples as plugins get them: as recorded, or unwound where the sample has a copy of the stack.

use crate::abi::feature::Feature;
use crate::abi::misc::{CONTEXT_USER, CpuMode};
use crate::abi::sample as s;
use crate::event::{Record, sample};
use crate::evlist::SampleLayout;
use crate::header::Header;
use crate::header::features::build_ids::BuildIdTable;
use crate::plugin::resolve::Whose;
use crate::session::{Arch, DsoKind, Map, Session};
use crate::symbol::LoadOptions;
use crate::symbol::tables::Symbols;
use crate::unwind::files::image;
use crate::unwind::{Code, MOST_FRAMES, Registers, Unwinder};

/// `PERF_SAMPLE_REGS_ABI_64`.
const REGS_ABI_64: u64 = 2;

/// Finds callchains.
pub struct Chains {
    /// Knows where files are; loads no symbols.
    symbols: Symbols,
    unwinder: Option<Unwinder>,
    entries: Option<Vec<u64>>,
}

/// What unwinding needs to know of an address.
enum Place {
    At(Code, u64),
    Unmapped,
    Missing,
    Signal,
}

impl Chains {
    /// Looks for files by these options.
    pub fn new(options: LoadOptions) -> Self {
        Chains { symbols: Symbols::new(options), unwinder: None, entries: None }
    }

    /// Takes what the recording says of build-ids and architecture.
    pub fn begin(&mut self, header: &Header) {
        let table = header.feature(Feature::BUILD_ID).map(|s| BuildIdTable::parse(s, header.order));
        let text = |feature| Some(String::from_utf8_lossy(header.string_feature(feature)?).into_owned());
        self.symbols.begin(table.as_ref(), text(Feature::OSRELEASE));
        let arch = Arch::from_name(&text(Feature::ARCH).unwrap_or_default());
        self.unwinder = self.unwinder.take().or_else(|| Unwinder::new(arch.e_machine));
    }

    /// The entries last found.
    pub fn entries(&self) -> Option<&[u64]> {
        self.entries.as_deref()
    }

    /// Finds the callchain of a sample for [`Chains::entries`]; `None` if it has none.
    pub fn find(
        &mut self,
        session: &mut Session,
        whose: Whose,
        record: Record<'_>,
        layout: &SampleLayout,
    ) -> Option<()> {
        let mut entries = self.entries.take().unwrap_or_default();
        entries.clear();
        let recorded = sample::callchain(record, layout).ok()?;
        let has_recorded = recorded.is_some();
        if let Some(raw) = recorded.and_then(|range| record.bytes.get(range)) {
            entries.extend(raw.chunks_exact(8).filter_map(|word| record.order.u64(word, 0)));
        }
        let unwound = self.unwind(session, whose, record, layout, &mut entries);
        self.entries = Some(entries).filter(|_| has_recorded || unwound.is_some());
        self.entries.as_ref().map(|_| ())
    }

    /// Appends the user part by unwinding the sampled stack.
    fn unwind(
        &mut self,
        session: &mut Session,
        whose: Whose,
        record: Record<'_>,
        layout: &SampleLayout,
        entries: &mut Vec<u64>,
    ) -> Option<()> {
        if !layout.has(s::REGS_USER) || !layout.has(s::STACK_USER) {
            return None;
        }
        let fields = sample::fields(record, layout).ok()?;
        let ((abi, words), stack) = (fields.regs_user?, fields.stack_user?);
        let (words, stack) = (record.bytes.get(words)?, record.bytes.get(stack)?);
        if abi != REGS_ABI_64 || stack.is_empty() {
            return None;
        }
        let registers = Registers { mask: layout.regs_user, words, order: record.order };
        let (mut walk, mut ip) = self.unwinder.as_ref()?.begin(&registers, stack)?;
        entries.push(CONTEXT_USER);
        for _ in 0..MOST_FRAMES {
            let code = match self.code(session, whose, ip) {
                Place::At(code, at) => code.at(at),
                Place::Unmapped => None,
                Place::Missing => {
                    entries.push(ip);
                    break;
                }
                Place::Signal => {
                    // No call led there: the frame is where it begins, and the next is where the signal came.
                    entries.push(ip.wrapping_add(1));
                    match self.unwinder.as_mut()?.interrupted(&mut walk) {
                        Some(interrupted) => ip = interrupted,
                        None => break,
                    }
                    continue;
                }
            };
            entries.push(ip);
            let Some(caller) = self.unwinder.as_mut()?.step(&mut walk, code) else { break };
            // The call, not what follows it.
            ip = caller.wrapping_sub(1);
        }
        Some(())
    }

    fn code(&mut self, session: &mut Session, whose: Whose, ip: u64) -> Place {
        let mut view = session.view(whose.machine, whose.pid, whose.tid);
        let Some(map) = view.find(CpuMode::User, ip).map(|found| found.map.clone()) else {
            return Place::Unmapped;
        };
        let map: &Map = &map;
        let dso = map.dso();
        let Some(unwinder) = self.unwinder.as_mut().filter(|_| is_file(dso.kind())) else {
            return Place::Unmapped;
        };
        let at = map.map_ip(ip);
        let symbols = &self.symbols;
        match unwinder.code(dso.id(), || image(symbols, dso)) {
            None => Place::Missing,
            Some(_) if unwinder.returns_from_signal(dso.id(), at.wrapping_add(1)) => Place::Signal,
            Some(code) => Place::At(code, at),
        }
    }
}

fn is_file(kind: DsoKind) -> bool {
    matches!(kind, DsoKind::User | DsoKind::Vdso)
}
