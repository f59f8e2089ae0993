//! The stage that follows the session and turns samples into batches.

use std::sync::Arc;

use super::batch::{Batch, Sample};
use super::chain;
use super::events::{Events, Shared};
use super::fields::Fields;
use super::json::JsonPrinter;
use super::numbers::Digits;
use super::output::{Output, Printer};
use super::resolve::{Resolver, Space};
use super::symbols::Symbols;
use super::text::TextPrinter;
use super::{Format, Options};
use crate::abi::attr::offset;
use crate::abi::feature::Feature;
use crate::abi::misc::CpuMode;
use crate::abi::record::RecordType;
use crate::error::{Error, ErrorKind, Result};
use crate::event::ksymbol::Ksymbol;
use crate::event::mmap::Mmap;
use crate::event::task::{Comm, Fork, Namespaces};
use crate::event::{Record, sample};
use crate::evlist::SampleLayout;
use crate::header::Header;
use crate::header::features::build_ids::BuildIdTable;
use crate::header::features::scalars::SampleTime;
use crate::session::{Arch, MachinePid, Session};
use crate::stage::{Context, Order, Stage, Verdict};

/// Shows samples.
pub(super) struct ScriptStage<'o> {
    options: &'o Options,
    session: Session,
    resolver: Resolver,
    events: Shared,
    filter: super::filter::Filter,
    output: Option<Output>,
    batch: Batch,
    /// Whose name was last put into the batch, and where.
    comm: Option<(Arc<[u8]>, (u32, u32))>,
}

impl<'o> ScriptStage<'o> {
    pub fn new(options: &'o Options) -> Self {
        ScriptStage {
            options,
            session: Session::new(Arch::from_name("")),
            resolver: Resolver::new(Symbols::new(options.load.clone())),
            events: Shared::default(),
            filter: options.filter.clone(),
            output: None,
            batch: Batch::default(),
            comm: None,
        }
    }

    /// Hands over what is left and waits for the printer.
    pub fn finish(mut self) -> Result<()> {
        let Some(output) = self.output.take() else { return Ok(()) };
        output.send(self.batch);
        output.finish()
    }

    fn machine(&self, mode: CpuMode, pid: i32) -> MachinePid {
        self.session.machine_of(mode, None, pid)
    }

    fn send(&mut self) -> Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        if !output.send(std::mem::take(&mut self.batch)) {
            // Why, the printer tells when it is waited for.
            return Err(Error::new(ErrorKind::Interrupted, "printing ended"));
        }
        self.batch = output.batch();
        self.comm = None;
        if let Some(most) = self.options.memory_limit
            && self.resolver.memory() > most
        {
            self.resolver.shrink(most / 2);
            self.session.shrink();
            self.batch.forget = true;
        }
        Ok(())
    }

    fn sample(&mut self, record: Record<'_>, cx: &Context<'_>) -> Result<()> {
        let Some(index) = cx.evlist.index_of_sample(record.bytes) else { return Ok(()) };
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
        let machine = self.machine(mode, pid);
        if self.session.machines().get(machine).is_none() {
            return Ok(());
        }
        let fields = event.fields;
        let (chain, addr_has_symbol) = (event.has_callchain, event.addr_has_symbol);
        let Some(comm) = self.comm(machine, pid, tid) else { return Ok(()) };
        let mut shown = Sample {
            event: index as u32,
            pid,
            tid,
            cpu: cpu.unwrap_or(u32::MAX),
            time,
            period: word(layout.period).unwrap_or_else(|| evsel.attr.u64(offset::SAMPLE_PERIOD)),
            addr: word(layout.addr).unwrap_or(0),
            comm,
            frames: 0,
            chain: false,
            addr_frame: false,
        };
        if fields.has(Fields::IP) || addr_has_symbol {
            let space = Space::of(&mut self.session, machine, pid, tid);
            if fields.has(Fields::IP) {
                let first = self.batch.frames.len();
                if chain && layout.has(crate::abi::sample::CALLCHAIN) {
                    shown.chain = true;
                    self.callchain(record, layout, &space)?;
                } else if let Some(ip) = word(layout.ip) {
                    let frame = self.resolver.frame(&mut self.session, &space, mode, ip, &mut self.batch);
                    self.batch.frames.push(frame);
                }
                shown.frames = (self.batch.frames.len() - first) as u32;
            }
            if addr_has_symbol && fields.has(Fields::ADDR) {
                shown.addr_frame = true;
                let mut view = self.session.view(machine, pid, tid);
                let found = view.find_fallback(mode, shown.addr).map(|(mode, _)| mode);
                let mode = found.unwrap_or(mode);
                let frame = self.resolver.frame(&mut self.session, &space, mode, shown.addr, &mut self.batch);
                self.batch.frames.push(frame);
            }
        }
        self.batch.samples.push(shown);
        if self.batch.is_full() { self.send() } else { Ok(()) }
    }

    #[inline]
    fn callchain(&mut self, record: Record<'_>, layout: &SampleLayout, space: &Space) -> Result<()> {
        let Some(range) = sample::callchain(record, layout)? else { return Ok(()) };
        let entries = record.bytes.get(range).unwrap_or_default();
        let first = self.batch.frames.len();
        let (resolver, session, batch) = (&mut self.resolver, &mut self.session, &mut self.batch);
        let valid = chain::walk(entries, record.order, |mode, ip| {
            let frame = resolver.frame(session, space, mode, ip, batch);
            batch.frames.push(frame);
        });
        if !valid {
            self.batch.frames.truncate(first);
        }
        Ok(())
    }

    /// Where in the batch the thread's name is; `None` if it does not pass the filter.
    fn comm(&mut self, machine: MachinePid, pid: i32, tid: i32) -> Option<(u32, u32)> {
        // The kernel goes on for a while in a thread that has ended, of which perf then knows no more.
        let thread = self.session.thread(machine, pid, tid).filter(|thread| !thread.has_exited());
        let known = thread.and_then(|thread| thread.comm());
        let Some(name) = known else {
            let digits = Digits::signed(tid);
            let mut own = Vec::with_capacity(12);
            if (pid, tid) == (0, 0) {
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

    /// Records that change the session.
    fn side_band(&mut self, record: Record<'_>, cx: &Context<'_>) -> Result<()> {
        let Some(trailer) = cx.evlist.trailer_of(record.bytes) else { return Ok(()) };
        let mode = record.cpumode();
        match record.ty() {
            RecordType::MMAP | RecordType::MMAP2 => {
                let mmap = Mmap::parse(record, trailer)?;
                let machine = self.machine(mode, mmap.pid);
                self.session.mmap(machine, &mmap);
                if mode == CpuMode::Kernel && self.wants_kernel() {
                    let host = self.session.machines().host();
                    if let Some(map) = host.kernel_map() {
                        self.resolver.symbols.expect_kernel(map.dso(), host.reference_symbol());
                    }
                }
            }
            RecordType::COMM => {
                let comm = Comm::parse(record, trailer)?;
                let machine = self.machine(mode, comm.pid);
                self.session.comm(machine, &comm);
            }
            RecordType::FORK => {
                let fork = Fork::parse(record)?;
                let machine = self.machine(mode, fork.pid);
                self.session.fork(machine, &fork);
            }
            RecordType::EXIT => {
                let exit = Fork::parse(record)?;
                let machine = self.machine(mode, exit.pid);
                self.session.exit(machine, &exit);
            }
            RecordType::NAMESPACES => {
                let namespaces = Namespaces::parse(record, trailer)?;
                let machine = self.machine(mode, namespaces.pid);
                self.session.namespaces(machine, &namespaces);
            }
            RecordType::KSYMBOL => {
                let ksymbol = Ksymbol::parse(record, trailer)?;
                let machine = self.machine(mode, -1);
                self.session.ksymbol(machine, &ksymbol);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether kernel addresses may have to be named.
    fn wants_kernel(&self) -> bool {
        self.events.any(Fields::SYM)
    }
}

fn put(comms: &mut Vec<u8>, name: &[u8]) -> (u32, u32) {
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
        self.session.set_arch(Arch::from_name(&text(Feature::ARCH).unwrap_or_default()));
        let table = header.feature(Feature::BUILD_ID).map(|bytes| BuildIdTable::parse(bytes, header.order));
        self.resolver.symbols.begin(table.as_ref(), text(Feature::OSRELEASE));
        let options = self.options;
        let events = Events::new(header, options.fields.clone(), options.callchains, options.name)?;
        self.resolver.set_wants_symbols(events.any(Fields::SYM));
        self.events = Shared::new(events);
        if let Some(time) = &options.time {
            let range = header
                .feature(Feature::SAMPLE_TIME)
                .and_then(|bytes| SampleTime::parse(bytes, header.order).ok())
                .map(|time| (time.first, time.last))
                .filter(|&range| range != (0, 0));
            self.filter.time = super::time::Spans::parse(time, range)?;
        }
        let printer = match options.format {
            Format::Text => Printer::Text(TextPrinter::new(self.events.clone(), options.nanoseconds)),
            Format::Json => Printer::Json(JsonPrinter::new(self.events.clone())),
        };
        let mut output = Output::spawn(printer, std::io::stdout());
        self.batch = output.batch();
        self.output = Some(output);
        Ok(())
    }

    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        match record.ty() {
            RecordType::SAMPLE => self.sample(record, cx)?,
            _ => self.side_band(record, cx)?,
        }
        Ok(Verdict::Keep)
    }

    fn round(&mut self) {
        self.session.round();
    }
}
