//! Names that plugins change, and who asks for them afterwards.

use super::super::support::builder::{AttrSpec, Builder, Map, Sample, build_id};
use super::super::support::oracle;
use super::super::support::run::{Dir, repipe, run};
use super::super::support::wire::Order;
use super::command::shipped;

#[test]
fn the_table_of_build_ids_and_the_summary_agree_with_the_names_that_are_written() {
    let dir = Dir::new();
    let folder = shipped(&dir, &["rename-dso"]);
    let recording = |order| {
        Builder::with(order, &AttrSpec::plain())
            .identity()
            .build_id_table(&[build_id("/app/bin/x", &[0xab; 20]), build_id("/usr/y", &[0xcd; 20])])
            .at(10, 10, 1)
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, "/app/bin/x"))
            .mmap2(&Map::exec(10, 0x50_0000, 0x1000, "/usr/y"))
            .mmap2(&Map::exec(10, 0x60_0000, 0x1000, "/app/bin/none"))
            .sample(&Sample::user(10, 0x40_0010, 5))
            .sample(&Sample::user(10, 0x50_0010, 6))
            .sample(&Sample::user(10, 0x60_0010, 7))
            .finished_round()
    };
    let empty = dir.join("empty");
    std::fs::create_dir(&empty).unwrap();
    for order in Order::BOTH {
        for (style, has_records) in
            [("-b", true), ("--buildid-all", true), ("-B", false), ("--mmap2-buildid-all", false)]
        {
            let input = dir.file("in", &recording(order).file());
            let out = dir.join("out");
            let mut c = repipe();
            c.args(["inject", style, "--summary=json", "--plugin", "rename-dso:from=/app/,to=/srv/image/"]);
            c.arg("--symfs")
                .arg(&empty)
                .arg("--buildid-dir")
                .arg(&empty)
                .arg("-i")
                .arg(&input)
                .arg("-o")
                .arg(&out);
            let outcome = run(c.env("REPIPE_PLUGIN_PATH", &folder)).expect_ok(style);
            let summary: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
            let missing: Vec<&str> = summary["ids_missing"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["name"].as_str().unwrap())
                .collect();
            assert_eq!(missing, ["/srv/image/bin/none"], "{style}");
            assert_eq!(summary["ids_injected"], serde_json::json!({ "table": 2 }), "{style}");
            let written = oracle::read(&out).unwrap();
            let of = |ids: Vec<super::super::support::recording::BuildId>| -> Vec<(String, u8)> {
                ids.into_iter().map(|id| (id.name, id.id[0])).collect()
            };
            let expected = [("/srv/image/bin/x".to_owned(), 0xab), ("/usr/y".to_owned(), 0xcd)];
            assert_eq!(of(oracle::table_of(&written)), expected, "{style}");
            if has_records {
                assert_eq!(of(oracle::injected_of(&written)), expected, "{style}");
            }
        }
    }
}
