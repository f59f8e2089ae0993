//! The recordings in fixtures/, with the build-ids of the programs beside them.

use std::path::PathBuf;

use super::support::places::root;
use super::support::recording::{Container, kind};
use super::support::run::{Dir, inject, repipe, run};
use super::support::{compare, oracle};

const HOME: &str = "/usr/local/share/repipe-fixtures";
/// As `readelf -n` prints them.
const WORK: &str = "c1d1f216ffcde120439ca277ba022b600f28fe67";
const BURN: &str = "6eb03e3eda775cf765f8817190f51b3869e05745";
const ALL: [&str; 7] =
    ["plain.data", "g.data", "dwarf.data", "pipe.data", "z.data", "threads.dir", "forks.data"];

fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

fn symfs() -> String {
    format!("--symfs={}", fixture("symfs").display())
}

fn expected() -> Vec<(String, String)> {
    vec![(BURN.to_owned(), format!("{HOME}/libburn.so")), (WORK.to_owned(), format!("{HOME}/work"))]
}

#[test]
fn each_gets_the_ids_of_its_programs() {
    for name in ALL {
        for style in ["-b", "--buildid-all"] {
            let dir = Dir::new();
            let out = dir.join("out");
            let outcome = inject(&[style, &symfs()], &fixture(name), &out).expect_ok(name);
            let read = oracle::read(&out).unwrap();
            assert_eq!(read.container, Container::File, "{name}");
            let mut ids: Vec<_> =
                oracle::injected_of(&read).iter().map(|e| (e.hex(), e.name.clone())).collect();
            ids.sort();
            assert_eq!(ids, expected(), "{name} {style}: {}", outcome.stderr);
            let mut table: Vec<_> =
                oracle::table_of(&read).iter().map(|e| (e.hex(), e.name.clone())).collect();
            table.sort();
            assert_eq!(table, expected(), "{name} {style}");
        }
    }
}

#[test]
fn each_gets_the_ids_into_its_mappings() {
    for name in ALL {
        for style in ["-B", "--mmap2-buildid-all"] {
            let dir = Dir::new();
            let out = dir.join("out");
            inject(&[style, &symfs()], &fixture(name), &out).expect_ok(name);
            let mut ids = compare::map_ids(&oracle::read(&out).unwrap());
            ids.sort();
            ids.dedup();
            let ids: Vec<_> = ids
                .into_iter()
                .map(|(name, id)| (id.iter().map(|b| format!("{b:02x}")).collect(), name))
                .collect();
            assert_eq!(ids, expected(), "{name} {style}");
        }
    }
}

#[test]
fn no_option_keeps_the_records_of_each() {
    for name in ALL {
        let dir = Dir::new();
        let out = dir.join("out");
        inject(&[], &fixture(name), &out).expect_ok(name);
        let (before, after) = (oracle::read(&fixture(name)).unwrap(), oracle::read(&out).unwrap());
        assert!(before.count(kind::SAMPLE) > 10, "{name}");
        let sorted = |r| {
            let mut records = compare::content(r).records;
            // a directory's files become one stream
            if name == "threads.dir" {
                records.sort_by(|a, b| a.bytes.cmp(&b.bytes));
            }
            records
        };
        compare::same_records(&sorted(&before), &sorted(&after)).unwrap_or_else(|e| panic!("{name}: {e}"));
        if matches!(name, "plain.data" | "g.data" | "dwarf.data" | "forks.data") {
            assert!(std::fs::read(fixture(name)).unwrap() == std::fs::read(&out).unwrap(), "{name}");
        }
    }
}

#[test]
fn info_knows_who_recorded() {
    for name in ALL {
        let outcome = run(repipe().arg("info").arg(fixture(name))).expect_ok(name);
        let text = String::from_utf8(outcome.stdout).unwrap();
        assert!(text.contains("fixture.example"), "{name}: {text}");
    }
}
