//! Feature sections for people and for programs.

use serde_json::{Value, json};

use super::build_ids;
use crate::bytes::ByteOrder;
use crate::header::features::Section;
use crate::header::features::cache::CacheLevel;
use crate::header::features::cpu_topology::CpuTopology;
use crate::header::features::pmu::PmuCaps;
use crate::header::features::tracing_data::TracingData;

/// A section as JSON; `docs/info.md` documents the fields.
pub(super) fn json(section: &Section<'_>) -> Value {
    match section {
        Section::TracingData(t) => tracing_data(t),
        Section::BuildIds(table) => json!({
            "entries": table.entries.len(),
            "gaps": table.gaps.iter().map(|&(offset, size)| json!({"offset": offset, "size": size})).collect::<Vec<_>>(),
            "stopped": table.stopped.as_ref().map(ToString::to_string),
        }),
        Section::Text(text) => json!(text),
        Section::NrCpus(n) => json!({"available": n.available, "online": n.online}),
        Section::TotalMem(kib) => json!({"kib": kib}),
        Section::Cmdline(args) => json!(args),
        Section::EventDesc(desc) => {
            let events = desc.events.iter().map(|e| json!({"name": text(e.name), "ids": e.ids}));
            json!({"attr_size": desc.attr_size, "events": events.collect::<Vec<_>>()})
        }
        Section::CpuTopology(t) => cpu_topology(t),
        Section::NumaTopology(nodes) => {
            list(nodes, |n| json!({"node": n.node, "total_kib": n.total, "free_kib": n.free, "cpus": n.cpus}))
        }
        Section::Flag => json!(true),
        Section::PmuMappings(pmus) => list(pmus, |p| json!({"type": p.pmu_type, "name": p.name})),
        Section::GroupDesc(groups) => {
            list(groups, |g| json!({"name": g.name, "leader": g.leader, "members": g.members}))
        }
        Section::Auxtrace(index) => {
            list(&index.entries, |e| json!({"file_offset": e.file_offset, "size": e.size}))
        }
        Section::Cache(levels) => list(levels, |c| {
            json!({
                "level": c.level, "line_size": c.line_size, "sets": c.sets, "ways": c.ways,
                "type": c.kind, "size": c.size, "cpus": c.cpus,
            })
        }),
        Section::SampleTime(t) => json!({"first": t.first, "last": t.last}),
        Section::MemTopology(m) => {
            let nodes = list(&m.nodes, |n| json!({"node": n.node, "blocks": n.block_count()}));
            json!({"version": m.version, "block_size": m.block_size, "nodes": nodes})
        }
        Section::ClockId(ns) => json!({"resolution_ns": ns}),
        Section::DirFormat(version) => json!({"version": version}),
        Section::BpfPrograms(programs) => list(programs, |p| {
            json!({
                "id": p.id(), "type": p.program_type(), "name": p.name().map(text), "tag": p.tag().map(hex),
                "jited_len": p.jited_len(), "info_len": p.info.len(), "data_len": p.data.len(),
            })
        }),
        Section::BpfBtf(btfs) => list(btfs, |b| json!({"id": b.id, "size": b.data.len()})),
        Section::Compressed(c) => json!({
            "version": c.version, "algorithm": algorithm(c.algorithm), "level": c.level, "ratio": c.ratio,
            "mmap_len": c.mmap_len,
        }),
        Section::CpuPmuCaps(caps) => caps_json(caps),
        Section::ClockData(c) => json!({
            "version": c.version, "clockid": c.clockid, "clock": clock(c.clockid), "wall_ns": c.wall_ns,
            "clock_ns": c.clock_ns,
        }),
        Section::HybridTopology(pmus) => list(pmus, |p| json!({"pmu": p.pmu, "cpus": p.cpus})),
        Section::PmuCaps(pmus) => list(pmus, |p| json!({"pmu": p.pmu, "caps": caps_json(p)})),
        Section::CpuDomains(d) => {
            let cpus = list(&d.cpus, |cpu| {
                let domains = list(
                    &cpu.domains,
                    |d| json!({"domain": d.domain, "name": d.name, "cpu_mask": d.cpu_mask, "cpus": d.cpu_list}),
                );
                json!({"cpu": cpu.cpu, "domains": domains})
            });
            json!({"schedstat_version": d.schedstat_version, "max_domains": d.max_domains, "cpus": cpus})
        }
        Section::EMachine(e) => json!({"machine": e.machine, "flags": e.flags}),
        Section::CacheLineSize(bytes) => json!({"bytes": bytes}),
        Section::SimpleperfFiles(files) => {
            list(files, |f| json!({"path": f.path, "dso_type": f.dso_type, "symbols": f.symbols}))
        }
        Section::SimpleperfMeta(pairs) => list(pairs, |(key, value)| json!({"key": key, "value": value})),
        Section::Opaque => Value::Null,
    }
}

/// A section as lines of text, of which the first stands beside its name.
pub(super) fn lines(section: &Section<'_>) -> Vec<String> {
    let one = |line: String| vec![line];
    match section {
        Section::TracingData(t) => one(format!(
            "version {}, {}, {} tracepoints, {} ftrace formats, {} bytes of kallsyms",
            t.version,
            byte_order(t.order),
            t.events.len(),
            t.ftrace_events,
            t.kallsyms_size
        )),
        Section::BuildIds(table) => build_ids::table_lines(table),
        Section::Text(text) => one(text.clone()),
        Section::NrCpus(n) => one(format!("{} available, {} online", n.available, n.online)),
        Section::TotalMem(kib) => one(format!("{kib} KiB")),
        Section::Cmdline(args) => one(args.iter().map(|a| shell_word(a)).collect::<Vec<_>>().join(" ")),
        Section::EventDesc(desc) => {
            one(format!("{} events, attrs of {} bytes", desc.events.len(), desc.attr_size))
        }
        Section::CpuTopology(t) => topology_lines(t),
        Section::NumaTopology(nodes) => {
            each(nodes, |n| format!("node {}: {} KiB, {} KiB free, CPUs {}", n.node, n.total, n.free, n.cpus))
        }
        Section::Flag => one("yes".into()),
        Section::PmuMappings(pmus) => {
            one(pmus.iter().map(|p| format!("{} = {}", p.name, p.pmu_type)).collect::<Vec<_>>().join(", "))
        }
        Section::GroupDesc(groups) => {
            each(groups, |g| format!("{}: {} events from number {}", g.name, g.members, g.leader))
        }
        Section::Auxtrace(index) => one(format!("{} AUX records", index.entries.len())),
        Section::Cache(levels) => cache_lines(levels),
        Section::SampleTime(t) => {
            one(format!("{} to {} s", super::text::seconds(t.first), super::text::seconds(t.last)))
        }
        Section::MemTopology(m) => {
            let mut lines = one(format!("blocks of {:#x} bytes", m.block_size));
            lines.extend(m.nodes.iter().map(|n| format!("node {}: {} blocks", n.node, n.block_count())));
            lines
        }
        Section::ClockId(ns) => one(format!("resolution {ns} ns")),
        Section::DirFormat(version) => one(format!("version {version}")),
        Section::BpfPrograms(programs) => each(programs, |p| {
            let number = |n: Option<u32>| n.map_or_else(|| "?".into(), |n| n.to_string());
            format!(
                "id {} type {} tag {} {}",
                number(p.id()),
                number(p.program_type()),
                p.tag().map(hex).unwrap_or_default(),
                p.name().map(text).unwrap_or_default()
            )
        }),
        Section::BpfBtf(btfs) => {
            let bytes: usize = btfs.iter().map(|b| b.data.len()).sum();
            one(format!("{} BTF objects, {bytes} bytes", btfs.len()))
        }
        Section::Compressed(c) => one(format!(
            "{} level {}, ratio {}, buffers of {} bytes, version {}",
            algorithm(c.algorithm),
            c.level,
            c.ratio,
            c.mmap_len,
            c.version
        )),
        Section::CpuPmuCaps(caps) => one(caps_text(caps)),
        Section::ClockData(c) => one(format!(
            "{} at {} s was {} s since 1970",
            clock(c.clockid).unwrap_or("an unknown clock"),
            super::text::seconds(c.clock_ns),
            super::text::seconds(c.wall_ns)
        )),
        Section::HybridTopology(pmus) => each(pmus, |p| format!("{}: CPUs {}", p.pmu, p.cpus)),
        Section::PmuCaps(pmus) => each(pmus, |p| format!("{}: {}", p.pmu, caps_text(p))),
        Section::CpuDomains(d) => one(format!(
            "schedstat version {}, {} CPUs, at most {} domains",
            d.schedstat_version,
            d.cpus.len(),
            d.max_domains
        )),
        Section::EMachine(e) => one(format!("machine {}, flags {:#x}", e.machine, e.flags)),
        Section::CacheLineSize(bytes) => one(format!("{bytes} bytes")),
        Section::SimpleperfFiles(files) => each(files, |f| format!("{} ({} symbols)", f.path, f.symbols)),
        Section::SimpleperfMeta(pairs) => {
            each(pairs, |(key, value)| format!("{key}: {}", value.replace('\n', "; ")))
        }
        Section::Opaque => one("not known".into()),
    }
}

fn list<T>(items: &[T], json: impl Fn(&T) -> Value) -> Value {
    items.iter().map(json).collect()
}

/// A line each; one that says so if there is none.
fn each<T>(items: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    if items.is_empty() { vec!["none".into()] } else { items.iter().map(line).collect() }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(super) fn byte_order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    }
}

fn algorithm(number: u32) -> String {
    match number {
        0 => "none".into(),
        1 => "zstd".into(),
        other => format!("unknown ({other})"),
    }
}

/// Names of `clockid_t` on Linux.
fn clock(id: u32) -> Option<&'static str> {
    Some(match id {
        0 => "realtime",
        1 => "monotonic",
        4 => "monotonic_raw",
        5 => "realtime_coarse",
        6 => "monotonic_coarse",
        7 => "boottime",
        11 => "tai",
        _ => return None,
    })
}

fn tracing_data(t: &TracingData) -> Value {
    let events = list(&t.events, |e| json!({"system": e.system, "name": e.name, "id": e.id}));
    json!({
        "version": t.version, "byte_order": byte_order(t.order), "long_size": t.long_size, "page_size": t.page_size,
        "ftrace_events": t.ftrace_events, "events": events, "kallsyms_size": t.kallsyms_size,
        "printk_size": t.printk_size, "cmdlines_size": t.cmdlines_size,
    })
}

fn cpu_topology(t: &CpuTopology) -> Value {
    let cpus = list(&t.cpus, |c| json!({"core": c.core, "socket": c.socket, "die": c.die}));
    json!({
        "core_siblings": t.core_siblings, "thread_siblings": t.thread_siblings, "die_siblings": t.die_siblings,
        "cpus": cpus, "unread_bytes": t.unread,
    })
}

fn topology_lines(t: &CpuTopology) -> Vec<String> {
    let mut lines = vec![format!("core siblings {}", t.core_siblings.join(" | "))];
    lines.push(format!("thread siblings {}", t.thread_siblings.join(" | ")));
    if !t.die_siblings.is_empty() {
        lines.push(format!("die siblings {}", t.die_siblings.join(" | ")));
    }
    if !t.cpus.is_empty() {
        let place = |(cpu, p): (usize, &crate::header::features::cpu_topology::CpuPlace)| {
            let die = p.die.map(|die| format!(".{}", die.cast_signed())).unwrap_or_default();
            format!("{cpu}: {}{die}.{}", p.socket.cast_signed(), p.core.cast_signed())
        };
        let order = if t.cpus.iter().any(|c| c.die.is_some()) { "socket.die.core" } else { "socket.core" };
        let places: Vec<_> = t.cpus.iter().enumerate().map(place).collect();
        lines.push(format!("CPU {order} {}", places.join(", ")));
    }
    lines
}

/// A line for each kind of cache, with the CPUs that share one.
fn cache_lines(levels: &[CacheLevel]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for c in levels {
        let kind = format!("L{} {} {}, {} ways, {}-byte lines", c.level, c.kind, c.size, c.ways, c.line_size);
        match lines.iter_mut().find(|line| line.0 == kind) {
            Some((_, cpus)) => cpus.push(&c.cpus),
            None => lines.push((kind, vec![&c.cpus])),
        }
    }
    each(&lines, |(kind, cpus)| format!("{kind}, CPUs {}", cpus.join(" | ")))
}

fn caps_json(caps: &PmuCaps) -> Value {
    list(&caps.caps, |(name, value)| json!({"name": name, "value": value}))
}

fn caps_text(caps: &PmuCaps) -> String {
    match caps.caps.as_slice() {
        [] => "none".into(),
        caps => caps.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", "),
    }
}

/// An argument as a shell would take it.
fn shell_word(arg: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+:,./@%^".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        arg.to_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::abi::feature::Feature;
    use crate::header::features::strings;

    #[test]
    fn command_lines_are_quoted_where_a_shell_needs_it() {
        let section =
            Section::Cmdline(["perf", "record", "-e", "a b", "", "it's"].map(String::from).to_vec());
        assert_eq!(lines(&section), [r"perf record -e 'a b' '' 'it'\''s'"]);
    }

    #[test]
    fn topologies_show_each_cpus_place() {
        let order = ByteOrder::Big;
        let mut bytes = Vec::new();
        strings::emit_cmdline(&["0-1"], order, &mut bytes);
        strings::emit_cmdline(&["0", "1"], order, &mut bytes);
        for word in [0, 3, u32::MAX, 3] {
            order.put_u32(&mut bytes, word);
        }
        let section = Section::parse(Feature::CPU_TOPOLOGY, &bytes, order, Some(2)).unwrap();
        assert_eq!(
            lines(&section),
            ["core siblings 0-1", "thread siblings 0 | 1", "CPU socket.core 0: 3.0, 1: 3.-1"]
        );
        assert_eq!(json(&section)["cpus"][1], json!({"core": 4_294_967_295u32, "socket": 3, "die": null}));
    }

    #[test]
    fn clocks_and_compression_are_named() {
        let order = ByteOrder::Little;
        let mut bytes = Vec::new();
        for word in [1, 1, 3, 4, 528_384] {
            order.put_u32(&mut bytes, word);
        }
        let section = Section::parse(Feature::COMPRESSED, &bytes, order, None).unwrap();
        assert_eq!(lines(&section), ["zstd level 3, ratio 4, buffers of 528384 bytes, version 1"]);
        assert_eq!(json(&section)["algorithm"], "zstd");
    }
}
