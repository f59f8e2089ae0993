//! Samples as JSON, an object a line.

use super::batch::{Frame, Texts, View};
use super::events::{Event, Shared};
use super::fields::Fields;
use super::numbers::{Digits, hex};
use super::text::cpumode_letter;

/// Writes samples as JSON.
pub(super) struct JsonPrinter {
    events: Shared,
}

impl JsonPrinter {
    pub fn new(events: Shared) -> Self {
        JsonPrinter { events }
    }

    /// Appends a sample.
    pub fn print(&self, view: &View<'_>, out: &mut Vec<u8>) {
        if let Some(event) = self.events.list.get(view.sample.event as usize) {
            let mut object = Object { out, first: true };
            write(&mut object, event, view);
            object.end();
            out.push(b'\n');
        }
    }
}

fn write(o: &mut Object<'_>, event: &Event, view: &View<'_>) {
    let View { sample, comm, frames, addr, texts, .. } = *view;
    let fields = event.fields;
    if fields.has(Fields::COMM) {
        o.text("comm", comm);
    }
    let ids = [(Fields::PID, "pid", sample.pid), (Fields::TID, "tid", sample.tid)];
    for (field, name, id) in ids {
        if fields.has(field) {
            o.digits(name, Digits::signed(id));
        }
    }
    let numbers = [
        (Fields::CPU, "cpu", u64::from(sample.cpu)),
        (Fields::TIME, "time", sample.time),
        (Fields::PERIOD, "period", sample.period),
    ];
    for (field, name, value) in numbers {
        if fields.has(field) {
            o.digits(name, Digits::of(value));
        }
    }
    if fields.has(Fields::EVENT) {
        o.text("event", event.name.as_bytes());
    }
    if fields.has(Fields::ADDR) {
        o.address("addr", sample.addr);
        if let Some(frame) = addr {
            o.key("addr_place");
            place(o.out, fields, frame, false, texts);
        }
    }
    if let Some(letter) = view.extra(fields, Fields::MISC).and_then(cpumode_letter) {
        o.text("misc", &[letter]);
    }
    let costs =
        [(Fields::WEIGHT, "weight"), (Fields::INS_LAT, "ins_lat"), (Fields::RETIRE_LAT, "retire_lat")];
    for (field, name) in costs {
        if let Some(value) = view.extra(fields, field) {
            o.digits(name, Digits::of(value));
        }
    }
    if let Some(value) = view.extra(fields, Fields::PHYS_ADDR) {
        o.address("phys_addr", value);
    }
    if fields.has(Fields::IP) {
        if sample.chain {
            o.key("callchain");
            o.out.push(b'[');
            for (index, frame) in frames.iter().enumerate() {
                if index > 0 {
                    o.out.push(b',');
                }
                place(o.out, fields, frame, true, texts);
            }
            o.out.push(b']');
        } else if let Some(frame) = frames.first() {
            o.address("ip", frame.ip);
            members(o, fields, frame, texts);
        }
    }
}

fn place(out: &mut Vec<u8>, fields: Fields, frame: &Frame, ip: bool, texts: &Texts) {
    let mut object = Object { out, first: true };
    if ip {
        object.address("ip", frame.ip);
    }
    members(&mut object, fields, frame, texts);
    object.end();
}

fn members(o: &mut Object<'_>, fields: Fields, frame: &Frame, texts: &Texts) {
    if let Some(symbol) = texts.symbol(frame.symbol).filter(|_| fields.has(Fields::SYM)) {
        o.text("sym", symbol);
        if fields.has(Fields::SYMOFF) {
            o.digits("symoff", Digits::of(frame.offset));
        }
    }
    if let Some(dso) = texts.dso(frame.dso()).filter(|_| fields.has(Fields::DSO)) {
        o.text("dso", dso);
    }
    if frame.is_inlined() {
        o.key("inlined");
        o.out.extend_from_slice(b"true");
    }
}

/// An object being written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    fn key(&mut self, name: &str) {
        self.out.push(if self.first { b'{' } else { b',' });
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn digits(&mut self, name: &str, digits: Digits) {
        self.key(name);
        self.out.extend_from_slice(digits.bytes());
    }

    /// Addresses are strings: many readers take numbers for floating point, which can't hold them.
    fn address(&mut self, name: &str, value: u64) {
        self.key(name);
        self.out.extend_from_slice(b"\"0x");
        hex(self.out, value);
        self.out.push(b'"');
    }

    fn text(&mut self, name: &str, text: &[u8]) {
        self.key(name);
        string(self.out, text);
    }

    fn end(&mut self) {
        if self.first {
            self.out.push(b'{');
        }
        self.out.push(b'}');
    }
}

/// A string; bytes that are no UTF-8 are replaced.
fn string(out: &mut Vec<u8>, text: &[u8]) {
    let plain = |b: &u8| (0x20..0x7f).contains(b) && *b != b'"' && *b != b'\\';
    if text.iter().all(plain) {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
        return;
    }
    let text = String::from_utf8_lossy(text);
    if serde_json::to_writer(&mut *out, &text).is_err() {
        out.extend_from_slice(b"\"\"");
    }
}
