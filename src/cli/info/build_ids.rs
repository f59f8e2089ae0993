//! Build-ids as the recording states them.

use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use super::features::text;
use crate::abi::misc::CpuMode;
use crate::header::features::build_ids::{BuildIdEntry, BuildIdTable};

/// Build-ids in the order in which they were met, each id of a path once.
#[derive(Debug, Default)]
pub(super) struct BuildIds {
    list: Vec<Listed>,
    seen: FxHashSet<(i32, String, String)>,
}

#[derive(Debug)]
struct Listed {
    /// Hex; where the recording states no length, all 20 bytes of the field, as perf prints them.
    build_id: String,
    length: Option<u8>,
    cpumode: CpuMode,
    pid: i32,
    path: String,
}

impl BuildIds {
    /// Adds an entry of the table or a HEADER_BUILD_ID record.
    pub(super) fn add(&mut self, entry: &BuildIdEntry<'_>) {
        let stated = entry.size.and(entry.build_id()).map(|id| id.to_string());
        let build_id = stated.unwrap_or_else(|| entry.id.iter().map(|b| format!("{b:02x}")).collect());
        let path = text(entry.filename);
        if self.seen.insert((entry.pid, path.clone(), build_id.clone())) {
            self.list.push(Listed {
                build_id,
                length: entry.size,
                cpumode: entry.cpumode(),
                pid: entry.pid,
                path,
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// `ID PATH` each, as `perf buildid-list` prints them.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.list.iter().map(|id| format!("{} {}", id.build_id, id.path))
    }

    pub(super) fn json(&self) -> Value {
        let one = |id: &Listed| {
            json!({
                "build_id": id.build_id, "length": id.length, "cpumode": cpumode(id.cpumode), "pid": id.pid,
                "path": id.path,
            })
        };
        self.list.iter().map(one).collect()
    }
}

/// What the BUILD_ID section is like, its ids left out.
pub(super) fn table_lines(table: &BuildIdTable<'_>) -> Vec<String> {
    let mut lines = vec![format!("{} entries", table.entries.len())];
    lines.extend(table.gaps.iter().map(|(offset, size)| format!("{size} bytes at {offset:#x} are no entry")));
    lines.extend(table.stopped.as_ref().map(|e| format!("broken: {e}")));
    lines
}

fn cpumode(mode: CpuMode) -> String {
    match mode {
        CpuMode::Unknown => "unknown".into(),
        CpuMode::Kernel => "kernel".into(),
        CpuMode::User => "user".into(),
        CpuMode::Hypervisor => "hypervisor".into(),
        CpuMode::GuestKernel => "guest_kernel".into(),
        CpuMode::GuestUser => "guest_user".into(),
        CpuMode::Other(bits) => format!("other_{bits}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::abi::build_id::BuildId;

    #[test]
    fn lengths_that_are_not_stated_show_the_whole_field() {
        let id: BuildId = "745c6a156aeccd1daa242eef630db66e".parse().unwrap();
        let stated = BuildIdEntry::new(&id, CpuMode::User, -1, b"/bin/bash");
        let unstated = BuildIdEntry { size: None, misc: 2, ..stated };
        let mut ids = BuildIds::default();
        for entry in [&stated, &unstated, &stated] {
            ids.add(entry);
        }
        let expected = [
            "745c6a156aeccd1daa242eef630db66e /bin/bash",
            "745c6a156aeccd1daa242eef630db66e00000000 /bin/bash",
        ];
        assert_eq!(ids.lines().collect::<Vec<_>>(), expected);
        assert_eq!(ids.json()[0]["length"], 16);
        assert_eq!(ids.json()[1]["length"], Value::Null);
        assert_eq!(ids.json()[1]["cpumode"], "user");
    }
}
