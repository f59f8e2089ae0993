//! The stage that turns samples into batches.

use std::sync::Arc;

use super::batch::{Batch, Sample};
use super::chain;
use super::counts::{self, Counts};
use super::direct::Outlet;
use super::events::{Events, Shared};
use super::fields::{EXTRAS, Fields};
use super::json::JsonPrinter;
use super::limit::Limit;
use super::numbers::Digits;
use super::output::Printer;
use super::resolve::{Asked, Code, Kept, Resolver, Space};
use super::text::TextPrinter;
use super::{Format, Options};
use crate::abi::attr::offset;
use crate::abi::feature::Feature;
use crate::abi::misc::CpuMode;
use crate::abi::record::RecordType;
use crate::abi::sample as s;
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Record, sample};
use crate::evlist::SampleLayout;
use crate::header::Header;
use crate::header::features::build_ids::BuildIdTable;
use crate::header::features::scalars::SampleTime;
use crate::plugin::dlfilter::{DlFilter, When};
use crate::session::{Arch, MachinePid, Session};
use crate::stage::{Context, Order, Stage, Verdict};
use crate::symbol::LoadError;
use crate::symbol::tables::Symbols;
use crate::unwind::{Registers, Unwinder};

/// `PERF_SAMPLE_REGS_ABI_64`.
const REGS_ABI_64: u64 = 2;

/// Start and length in [`Batch::comms`].
type Place = (u32, u32);

/// Shows samples.
pub(super) struct ScriptStage<'o> {
    options: &'o Options,
    resolver: Resolver,
    events: Shared,
    filter: super::filter::Filter,
    output: Option<Outlet>,
    dlfilter: Option<DlFilter>,
    batch: Batch,
    counts: Counts,
    /// Whose name was last put into the batch, and where.
    comm: Option<(Arc<[u8]>, Place)>,
}

impl<'o> ScriptStage<'o> {
    pub fn new(options: &'o Options) -> Self {
        ScriptStage {
            options,
            resolver: Resolver::new(Symbols::new(options.load.clone())),
            events: Shared::default(),
            filter: options.filter.clone(),
            output: None,
            dlfilter: None,
            batch: Batch::default(),
            counts: Counts::default(),
            comm: None,
        }
    }

    /// Lets samples pass a dlfilter before they are shown.
    pub fn set_dlfilter(&mut self, filter: DlFilter) {
        self.dlfilter = Some(filter);
    }

    /// How the memory limit was kept, if there is one.
    pub fn limit(&self) -> Option<&Limit> {
        self.resolver.limit()
    }

    /// Why the file named for the kernel's symbols has none.
    pub fn unusable_kernel_file(&self) -> Option<&LoadError> {
        self.resolver.symbols.unusable_kernel_file()
    }

    /// Hands over what is left and waits for the printer.
    pub fn finish(mut self) -> Result<()> {
        if let Some(filter) = &mut self.dlfilter {
            filter.stop();
        }
        let Some(mut output) = self.output.take() else { return Ok(()) };
        let enough = self.resolver.symbols.check_memory();
        if enough.is_ok() {
            output.send(self.batch);
        }
        output.finish().and(enough)
    }

    fn send(&mut self, session: &mut Session) -> Result<()> {
        self.resolver.symbols.check_memory()?;
        let Some(output) = &mut self.output else { return Ok(()) };
        let frames = self.batch.frames.len();
        if !output.send(std::mem::take(&mut self.batch)) {
            // Why, the printer tells when it is waited for.
            return Err(Error::new(ErrorKind::Interrupted, "printing ended"));
        }
        self.batch = output.batch();
        self.comm = None;
        let kept = self.resolver.keep_to_limit(frames);
        if kept != Kept::All {
            self.batch.forget = kept == Kept::Nothing;
            session.shrink();
        }
        Ok(())
    }

    fn sample(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<()> {
        let evlist = cx.evlist;
        if !self.passes(When::Early, record, cx)? {
            return Ok(());
        }
        let Some(index) = evlist.index_of_sample(record.bytes) else { return Ok(()) };
        let Some(layout) = evlist.evsels().get(index).map(|evsel| &evsel.layout) else { return Ok(()) };
        if !layout.has(s::READ) {
            return self.sample_of(record, cx, index, None);
        }
        // Counters that are read with a sample each make one, whose period is what was counted since.
        let tid = layout.tid.and_then(|at| record.order.u32(record.bytes, at + 4)).unwrap_or(0);
        let values = counts::values(record, layout)?;
        for (id, value) in values {
            let Some(index) = id.map_or(Some(index), |id| evlist.index_of_id(id)) else { continue };
            let Some(evsel) = evlist.evsels().get(index) else { continue };
            let period = self.counts.since_last(&evsel.attr, id.unwrap_or(0), tid, value);
            if period != 0 {
                self.sample_of(record, cx, index, Some(period))?;
            }
        }
        Ok(())
    }

    /// Whether the dlfilter lets a sample through.
    fn passes(&mut self, when: When, record: Record<'_>, cx: &mut Context<'_>) -> Result<bool> {
        match &mut self.dlfilter {
            Some(filter) => filter.keeps(when, record, cx.evlist, cx.session),
            None => Ok(true),
        }
    }

    /// Shows a sample as one of an event, with a period that is not the recorded one if some is given.
    fn sample_of(
        &mut self,
        record: Record<'_>,
        cx: &mut Context<'_>,
        index: usize,
        period: Option<u64>,
    ) -> Result<()> {
        let (Some(evsel), Some(event)) = (cx.evlist.evsels().get(index), self.events.list.get(index)) else {
            return Ok(());
        };
        let layout = &evsel.layout;
        let order = record.order;
        let word = |at: Option<usize>| at.and_then(|at| order.u64(record.bytes, at));
        let half = |at: usize| order.u32(record.bytes, at);
        let time = word(layout.time).unwrap_or(0);
        let cpu = layout.cpu.and_then(half);
        if !self.filter.time.contains(time) || !self.filter.cpu(cpu) || event.fields.is_empty() {
            return Ok(());
        }
        let (pid, tid) = layout.tid.map_or((-1, -1), |at| {
            let id = |at| half(at).map_or(-1, u32::cast_signed);
            (id(at), id(at + 4))
        });
        if !self.filter.thread(pid, tid) {
            return Ok(());
        }
        let mode = record.cpumode();
        let machine = cx.session.machine_of(mode, None, pid);
        if cx.session.machines().get(machine).is_none() {
            return Ok(());
        }
        let fields = event.fields;
        let (chain, addr_has_symbol) = (event.has_callchain, event.addr_has_symbol);
        let Some(comm) = self.comm(cx.session, machine, pid, tid) else { return Ok(()) };
        if !self.passes(When::Late, record, cx)? {
            return Ok(());
        }
        let mut shown = Sample {
            event: index as u32,
            pid,
            tid,
            cpu: cpu.unwrap_or(u32::MAX),
            time,
            period: period
                .or_else(|| word(layout.period))
                .unwrap_or_else(|| evsel.attr.u64(offset::SAMPLE_PERIOD)),
            addr: word(layout.addr).unwrap_or(0),
            comm,
            frames: 0,
            chain: false,
            addr_frame: false,
            extras: 0,
        };
        if fields.has(Fields::IP) || addr_has_symbol {
            let space = Space::of(cx.session, machine, pid, tid);
            if fields.has(Fields::IP) {
                let first = self.batch.frames.len();
                shown.chain = chain && layout.has(s::CALLCHAIN);
                if shown.chain {
                    self.callchain(cx.session, record, layout, &space)?;
                    // Where the kernel found no frame, perf shows nothing; for programs that is not to be lost.
                    shown.chain = self.options.format == Format::Text || self.batch.frames.len() > first;
                }
                if !shown.chain
                    && let Some(ip) = word(layout.ip)
                {
                    let frame = self.resolver.frame(cx.session, &space, mode, ip, &mut self.batch);
                    self.batch.frames.push(frame);
                }
                shown.frames = (self.batch.frames.len() - first) as u32;
            }
            if addr_has_symbol && fields.has(Fields::ADDR) {
                shown.addr_frame = true;
                let mut view = cx.session.view(machine, pid, tid);
                let found = view.find_fallback(mode, shown.addr).map(|(mode, _)| mode);
                let mode = found.unwrap_or(mode);
                let frame = self.resolver.frame(cx.session, &space, mode, shown.addr, &mut self.batch);
                self.batch.frames.push(frame);
            }
        }
        if EXTRAS.iter().any(|&extra| fields.has(extra)) {
            shown.extras = self.extras(record, layout, fields)?;
        }
        self.batch.samples.push(shown);
        if self.batch.is_full() || self.dlfilter.is_some() { self.send(cx.session) } else { Ok(()) }
    }

    /// Puts the [`EXTRAS`] among the fields behind the sample. Returns how many there are.
    fn extras(&mut self, record: Record<'_>, layout: &SampleLayout, fields: Fields) -> Result<u8> {
        let found = sample::fields(record, layout)?;
        let word = |at: Option<usize>| at.and_then(|at| record.order.u64(record.bytes, at)).unwrap_or(0);
        let weight = word(found.weight);
        // A struct of u32, u16, u16 in memory, so that what a word's low half is goes by the byte order.
        let [first, second, third] = match (layout.has(s::WEIGHT_STRUCT), record.order) {
            (false, _) => [weight, 0, 0],
            (true, ByteOrder::Little) => [weight & 0xffff_ffff, weight >> 32 & 0xffff, weight >> 48],
            (true, ByteOrder::Big) => [weight >> 32, weight >> 16 & 0xffff, weight & 0xffff],
        };
        let values = [
            record.cpumode().bits().into(),
            word(found.data_src),
            first,
            second,
            third,
            word(found.phys_addr),
        ];
        let mut count = 0;
        for (extra, value) in EXTRAS.into_iter().zip(values) {
            if fields.has(extra) {
                self.batch.extras.push(value);
                count += 1;
            }
        }
        Ok(count)
    }

    #[inline]
    fn callchain(
        &mut self,
        session: &mut Session,
        record: Record<'_>,
        layout: &SampleLayout,
        space: &Space,
    ) -> Result<()> {
        let Some(range) = sample::callchain(record, layout)? else { return Ok(()) };
        let entries = record.bytes.get(range).unwrap_or_default();
        let first = self.batch.frames.len();
        let (resolver, batch) = (&mut self.resolver, &mut self.batch);
        let mut callee = None;
        let valid = chain::walk(entries, record.order, self.options.max_stack, |mode, ip| {
            let returned = callee.replace(mode) == Some(mode);
            resolver.push(session, space, Asked { mode, ip, returned }, batch);
        });
        if !valid {
            self.batch.frames.truncate(first);
        }
        if layout.has(s::REGS_USER) && layout.has(s::STACK_USER) && self.resolver.unwinder.is_some() {
            self.unwind(session, record, layout, space)?;
        }
        Ok(())
    }

    /// Appends the user part of the callchain by unwinding the sampled stack.
    fn unwind(
        &mut self,
        session: &mut Session,
        record: Record<'_>,
        layout: &SampleLayout,
        space: &Space,
    ) -> Result<()> {
        let fields = sample::fields(record, layout)?;
        let bytes = |range| record.bytes.get(range).unwrap_or_default();
        let (Some((abi, words)), Some(stack)) = (fields.regs_user, fields.stack_user) else { return Ok(()) };
        if abi != REGS_ABI_64 || stack.is_empty() {
            return Ok(());
        }
        let registers = Registers { mask: layout.regs_user, words: bytes(words), order: record.order };
        let begun = self.resolver.unwinder.as_ref().and_then(|u| u.begin(&registers, bytes(stack)));
        let Some((mut walk, mut ip)) = begun else { return Ok(()) };
        for _ in 0..self.options.max_stack {
            let (resolver, batch) = (&mut self.resolver, &mut self.batch);
            let asked = Asked { mode: CpuMode::User, ip, returned: false };
            let code = match resolver.push(session, space, asked, batch) {
                Code::At(code) => Some(code),
                Code::Unmapped => None,
                Code::Missing => break,
                Code::Signal => {
                    // No call led there: the frame is where it begins, and the next is where the signal came.
                    batch.frames.pop();
                    let frame = resolver.frame(session, space, CpuMode::User, ip.wrapping_add(1), batch);
                    batch.frames.push(frame);
                    match resolver.unwinder.as_mut().and_then(|u| u.interrupted(&mut walk)) {
                        Some(interrupted) => ip = interrupted,
                        None => break,
                    }
                    continue;
                }
            };
            let Some(caller) = resolver.unwinder.as_mut().and_then(|u| u.step(&mut walk, code)) else {
                break;
            };
            // The call, not what follows it.
            ip = caller.wrapping_sub(1);
        }
        Ok(())
    }

    /// Where in the batch the thread's name is; `None` if it does not pass the filter.
    fn comm(&mut self, session: &Session, machine: MachinePid, pid: i32, tid: i32) -> Option<Place> {
        // The kernel goes on for a while in a thread that has ended, of which perf then knows no more.
        let thread = session.thread(machine, pid, tid).filter(|thread| !thread.has_exited());
        let known = thread.and_then(|thread| thread.comm());
        let Some(name) = known else {
            let digits = Digits::signed(tid);
            let mut own = Vec::with_capacity(12);
            if tid == 0 {
                own.extend_from_slice(b"swapper");
            } else {
                own.push(b':');
                own.extend_from_slice(digits.bytes());
            }
            return self.filter.comm(&own).then(|| put(&mut self.batch.comms, &own));
        };
        if let Some((last, place)) = &self.comm
            && Arc::ptr_eq(last, name)
        {
            return Some(*place);
        }
        if !self.filter.comm(name) {
            return None;
        }
        let place = put(&mut self.batch.comms, name);
        self.comm = Some((Arc::clone(name), place));
        Some(place)
    }

    /// The kernel's map came: its symbols will be asked for.
    fn expect_kernel(&mut self, session: &Session) {
        let host = session.machines().host();
        if let Some(map) = host.kernel_map().filter(|_| self.wants_kernel()) {
            self.resolver.symbols.expect_kernel(map.dso(), host.reference_symbol());
        }
    }

    /// Whether kernel addresses may have to be named: by their DSO too, whose map reaches as far as its symbols.
    fn wants_kernel(&self) -> bool {
        self.events.any(Fields::SYM) || self.events.any(Fields::DSO)
    }
}

fn put(comms: &mut Vec<u8>, name: &[u8]) -> Place {
    let at = comms.len() as u32;
    comms.extend_from_slice(name);
    (at, name.len() as u32)
}

impl Stage for ScriptStage<'_> {
    fn order(&self) -> Order {
        Order::Time
    }

    fn begin(&mut self, header: &Header) -> Result<()> {
        let text = |feature| {
            let bytes = header.string_feature(feature)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let table = header.feature(Feature::BUILD_ID).map(|bytes| BuildIdTable::parse(bytes, header.order));
        self.resolver.symbols.begin(table.as_ref(), text(Feature::OSRELEASE));
        let options = self.options;
        let events = Events::new(header, options.fields.clone(), options.callchains, options.name)?;
        if !self.filter.cpus.is_empty() {
            events.require_cpu(header)?;
        }
        // perf shows what was inlined even where no names are.
        self.resolver.set_wanted(events.any(Fields::SYM) || options.inlines, events.any(Fields::DSO));
        self.events = Shared::new(events);
        if let Some(bytes) = options.memory_limit {
            self.resolver.set_limit(bytes);
        }
        if options.inlines {
            self.resolver.find_inlined();
        }
        let has_stacks = header.attrs.iter().any(|a| a.attr.sample_type() & s::STACK_USER != 0);
        if has_stacks && self.events.callchains {
            let arch = Arch::from_name(&text(Feature::ARCH).unwrap_or_default());
            self.resolver.unwinder = Unwinder::new(arch.e_machine);
        }
        if let Some(time) = &options.time {
            let range = header
                .feature(Feature::SAMPLE_TIME)
                .and_then(|bytes| SampleTime::parse(bytes, header.order).ok())
                .map(|time| (time.first, time.last))
                .filter(|&range| range != (0, 0));
            self.filter.time = super::time::Spans::parse(time, range)?;
        }
        let printer = match options.format {
            Format::Text => {
                Printer::Text(TextPrinter::new(self.events.clone(), options.nanoseconds, options.times))
            }
            Format::Json => Printer::Json(JsonPrinter::new(self.events.clone())),
        };
        let mut output = Outlet::new(printer, self.dlfilter.is_some())?;
        if let Some(filter) = &mut self.dlfilter {
            filter.start(header)?;
        }
        self.batch = output.batch();
        self.output = Some(output);
        Ok(())
    }

    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        match record.ty() {
            RecordType::SAMPLE => self.sample(record, cx)?,
            RecordType::MMAP | RecordType::MMAP2 if record.cpumode() == CpuMode::Kernel => {
                self.expect_kernel(cx.session);
            }
            _ => cx.session.keep_maps_on_exec(),
        }
        Ok(Verdict::Keep)
    }
}
