//! The report for people.

use std::io::{self, Write};

use super::attr as names;
use super::features::byte_order;
use super::report::{Event, FeatureReport, Report};
use crate::abi::record::RecordType;
use crate::cli::terminal::printable;

/// Width of the column of feature names.
const NAME_WIDTH: usize = 20;

/// Writes the whole report.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    header(report, out)?;
    writeln!(out, "\nevents: {}", report.events.len())?;
    for event in &report.events {
        write_event(event, out)?;
    }
    writeln!(out, "\nfeatures: {}", report.features.len())?;
    for feature in &report.features {
        write_feature(feature, out)?;
    }
    records(report, out)?;
    let ids = [("build-ids of the table", &report.table), ("build-ids in the records", &report.stream)];
    for (title, ids) in ids.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        writeln!(out, "\n{title}: {}", ids.len())?;
        for line in ids.lines() {
            writeln!(out, "  {}", printable(&line))?;
        }
    }
    if !report.warnings.is_empty() {
        writeln!(out, "\nwarnings: {}", report.warnings.len())?;
        for warning in &report.warnings {
            writeln!(out, "  {}", printable(warning))?;
        }
    }
    Ok(())
}

fn header(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let layout = &report.layout;
    writeln!(out, "recording: {}", printable(&report.input))?;
    write!(out, "format: {}, {}", report.container, byte_order(report.order))?;
    if report.decompressed {
        write!(out, ", compressed")?;
    }
    if let Some(size) = layout.file_size {
        write!(out, ", {size} bytes")?;
    }
    writeln!(out)?;
    if let Some(size) = layout.header_size {
        write!(out, "header: {size} bytes")?;
        if let Some(entry) = layout.attr_entry_size {
            write!(out, ", attr entries of {entry} bytes")?;
        }
        if let Some((offset, size)) = layout.data {
            write!(out, ", data of {size} bytes at {offset:#x}")?;
        }
        writeln!(out)?;
    }
    for (name, size) in &layout.parts {
        writeln!(out, "part: {}, {size} bytes", printable(name))?;
    }
    for name in &layout.others {
        writeln!(out, "beside it: {}", printable(name))?;
    }
    Ok(())
}

fn write_event(event: &Event, out: &mut dyn Write) -> io::Result<()> {
    let attr = &event.attr;
    let period = if event.is_freq() { "frequency" } else { "period" };
    writeln!(out, "  {}", printable(&event.name))?;
    writeln!(
        out,
        "    {}, attr of {} bytes, {period} {}, {} ids, {} samples",
        printable(&event.config_text()),
        attr.bytes().len(),
        event.period(),
        event.ids,
        event.samples
    )?;
    let fields = [
        ("samples", names::sample_type(attr)),
        ("reads", names::read_format(attr)),
        ("branches", names::branch_sample_type(attr)),
        ("flags", names::flags(attr)),
    ];
    for (title, bits) in fields.iter().filter(|(_, bits)| !bits.is_empty()) {
        writeln!(out, "    {title}: {}", bits.join(" "))?;
    }
    match names::precise_ip(attr) {
        0 => Ok(()),
        level => writeln!(out, "    precise_ip: {level}"),
    }
}

fn write_feature(feature: &FeatureReport, out: &mut dyn Write) -> io::Result<()> {
    let name = feature.name();
    match &feature.value {
        Err(message) => writeln!(out, "  {name:NAME_WIDTH$} broken: {}", printable(message)),
        Ok((_, lines)) => {
            let mut title = name.as_str();
            for line in lines {
                writeln!(out, "  {title:NAME_WIDTH$} {}", printable(line))?;
                title = "";
            }
            Ok(())
        }
    }
}

fn records(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let total = report.total();
    writeln!(out, "\nrecords: {}, {} bytes", total.count, total.bytes)?;
    for (ty, tally) in &report.records {
        let name = ty.name().map_or_else(|| format!("type {}", ty.0), str::to_owned);
        write!(out, "  {name:20} {:>10} {:>14} bytes", tally.count, tally.bytes)?;
        if tally.payload != 0 {
            write!(out, " + {} bytes of payload", tally.payload)?;
        }
        writeln!(out)?;
    }
    if report.records.contains_key(&RecordType::SAMPLE) {
        match report.times {
            Some((first, last)) => writeln!(
                out,
                "samples: {}, from {} to {} s ({} s)",
                report.samples(),
                seconds(first),
                seconds(last),
                seconds(last.saturating_sub(first))
            )?,
            None => writeln!(out, "samples: {}, without times", report.samples())?,
        }
    }
    Ok(())
}

/// Nanoseconds as seconds, all nine places.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(seconds(1_000_000_007), "1.000000007");
        assert_eq!(seconds(5), "0.000000005");
    }
}
