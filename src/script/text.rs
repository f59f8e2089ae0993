//! Samples as lines of text, as `perf script` writes them.

use std::cell::Cell;

use super::Times;
use super::batch::{Frame, Texts, View};
use super::data_src;
use super::events::{Event, Shared};
use super::fields::Fields;
use super::numbers::{Digits, hex, hex_padded, padded};
use crate::abi::misc::CpuMode;

/// Writes samples as text.
pub(super) struct TextPrinter {
    events: Shared,
    nanoseconds: bool,
    times: Times,
    /// The time that others are shown from: the first one, or the last.
    from: Cell<Option<u64>>,
    /// Width of data sources: that of the longest so far.
    source_width: Cell<usize>,
}

impl TextPrinter {
    pub fn new(events: Shared, nanoseconds: bool, times: Times) -> Self {
        TextPrinter { events, nanoseconds, times, from: Cell::new(None), source_width: Cell::new(0) }
    }

    /// Appends a sample.
    pub fn print(&self, view: &View<'_>, out: &mut Vec<u8>) {
        if let Some(event) = self.events.list.get(view.sample.event as usize) {
            self.sample(event, view, out);
        }
    }

    fn sample(&self, event: &Event, view: &View<'_>, out: &mut Vec<u8>) {
        let View { sample, comm, frames, addr, texts, .. } = *view;
        let fields = event.fields;
        if fields.has(Fields::COMM) {
            let width = if fields.has(Fields::IP) && event.has_callchain { 0 } else { 16 };
            pad(out, comm.len(), width);
            out.extend_from_slice(comm);
            out.push(b' ');
        }
        match (fields.has(Fields::PID), fields.has(Fields::TID)) {
            (true, true) => {
                padded(out, Digits::signed(sample.pid), 7);
                out.push(b'/');
                let digits = Digits::signed(sample.tid);
                out.extend_from_slice(digits.bytes());
                pad(out, digits.bytes().len(), 7);
                out.push(b' ');
            }
            (true, false) | (false, true) => {
                let id = if fields.has(Fields::PID) { sample.pid } else { sample.tid };
                padded(out, Digits::signed(id), 7);
                out.push(b' ');
            }
            (false, false) => {}
        }
        if fields.has(Fields::CPU) {
            out.push(b'[');
            let digits = Digits::signed(sample.cpu.cast_signed());
            out.extend(std::iter::repeat_n(b'0', 3usize.saturating_sub(digits.bytes().len())));
            out.extend_from_slice(digits.bytes());
            out.extend_from_slice(b"] ");
        }
        if let Some(mode) = view.extra(fields, Fields::MISC) {
            let letter = cpumode_letter(mode);
            out.push(letter.unwrap_or(b' '));
            out.extend_from_slice(b"     ");
        }
        if fields.has(Fields::TIME) {
            self.time(self.since(sample.time), out);
        }
        if fields.has(Fields::PERIOD) {
            padded(out, Digits::of(sample.period), 10);
            out.push(b' ');
        }
        if fields.has(Fields::EVENT) {
            pad(out, event.name.len(), self.events.width);
            out.extend_from_slice(event.name.as_bytes());
            out.extend_from_slice(b": ");
        }
        if fields.has(Fields::ADDR) {
            hex_padded(out, sample.addr);
            if let Some(frame) = addr {
                place(fields, frame, texts, out);
            }
        }
        if let Some(source) = view.extra(fields, Fields::DATA_SRC) {
            let source = data_src::describe(source);
            self.source_width.set(self.source_width.get().max(source.len()));
            out.extend_from_slice(source.as_bytes());
            pad(out, source.len(), self.source_width.get());
        }
        for field in [Fields::WEIGHT, Fields::INS_LAT, Fields::RETIRE_LAT] {
            if let Some(value) = view.extra(fields, field) {
                padded(out, Digits::of(value), 16);
            }
        }
        if fields.has(Fields::IP) {
            if sample.chain {
                out.push(b'\n');
                for frame in frames {
                    out.push(b'\t');
                    hex_padded(out, frame.ip);
                    place(fields, frame, texts, out);
                    out.push(b'\n');
                }
            } else if let Some(frame) = frames.first() {
                out.push(b' ');
                hex_padded(out, frame.ip);
                place(fields, frame, texts, out);
            }
        }
        if let Some(addr) = view.extra(fields, Fields::PHYS_ADDR) {
            hex_padded(out, addr);
        }
        out.push(b'\n');
    }

    /// A time as it is shown: since the recording's machine began to count, since the first sample, or the last.
    fn since(&self, time: u64) -> u64 {
        match self.times {
            Times::Absolute => time,
            Times::SinceFirst => {
                let first = self.from.get().unwrap_or(time);
                self.from.set(Some(first));
                time.wrapping_sub(first)
            }
            Times::SinceLast => time.wrapping_sub(self.from.replace(Some(time)).unwrap_or(time)),
        }
    }

    fn time(&self, time: u64, out: &mut Vec<u8>) {
        let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
        let (fraction, places) = if self.nanoseconds { (ns, 9) } else { (ns / 1000, 6) };
        // The point and six digits are within the twelve columns; of nanoseconds, seconds alone have five.
        padded(out, Digits::of(seconds), 5);
        out.push(b'.');
        let digits = Digits::of(fraction);
        out.extend(std::iter::repeat_n(b'0', places - digits.bytes().len().min(places)));
        out.extend_from_slice(digits.bytes());
        out.extend_from_slice(b": ");
    }
}

/// `K` for the kernel, `U` for user space and so on.
pub(super) fn cpumode_letter(mode: u64) -> Option<u8> {
    match CpuMode::from_misc(u16::try_from(mode).ok()?) {
        CpuMode::Kernel => Some(b'K'),
        CpuMode::User => Some(b'U'),
        CpuMode::Hypervisor => Some(b'H'),
        CpuMode::GuestKernel => Some(b'G'),
        CpuMode::GuestUser => Some(b'g'),
        _ => None,
    }
}

/// Symbol and DSO.
#[inline]
fn place(fields: Fields, frame: &Frame, texts: &Texts, out: &mut Vec<u8>) {
    if fields.has(Fields::SYM) {
        out.push(b' ');
        match texts.symbol(frame.symbol) {
            Some(name) => {
                out.extend_from_slice(name);
                if fields.has(Fields::SYMOFF) {
                    out.extend_from_slice(b"+0x");
                    hex(out, frame.offset);
                }
            }
            None => out.extend_from_slice(b"[unknown]"),
        }
    }
    if frame.is_inlined() {
        out.extend_from_slice(b" (inlined)");
    } else if fields.has(Fields::DSO) {
        out.extend_from_slice(b" (");
        out.extend_from_slice(texts.dso(frame.dso()).unwrap_or(b"[unknown]"));
        out.push(b')');
    }
}

fn pad(out: &mut Vec<u8>, len: usize, width: usize) {
    out.extend(std::iter::repeat_n(b' ', width.saturating_sub(len)));
}
