//! One test per kind of fault that rewriters of recordings are known for, with the right value in it.
//! Each recording is built here, in both byte orders.

mod build_ids;
mod compressed;
mod fields;
mod order;
mod salvage;
mod transport;

use super::support::builder::{AttrSpec, Builder, Map, Sample, build_id};
use super::support::oracle;
use super::support::recording::{Recording, st};
use super::support::wire::Order;

const APP: &str = "/usr/bin/app";
const LIB: &str = "/usr/lib/lib.so";
const APP_ID: [u8; 20] = [0x11; 20];
const LIB_ID: [u8; 8] = [0x22; 8];

/// A process with two mappings whose ids the recording's table tells; nothing is sampled yet.
fn process(order: Order, attr: &AttrSpec) -> Builder {
    Builder::with(order, attr)
        .identity()
        .build_id_table(&[build_id(APP, &APP_ID), build_id(LIB, &LIB_ID)])
        .at(10, 10, 100)
        .exec(10, "app")
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
        .mmap2(&Map::exec(10, 0x7f00_0000_0000, 0x1000, LIB))
}

/// Names and ids of HEADER_BUILD_ID records, sorted.
fn ids(recording: &Recording) -> Vec<(String, Vec<u8>)> {
    let mut ids: Vec<_> = oracle::injected_of(recording).into_iter().map(|e| (e.name, e.id)).collect();
    ids.sort();
    ids
}

fn app() -> (String, Vec<u8>) {
    (APP.to_owned(), APP_ID.to_vec())
}

fn lib() -> (String, Vec<u8>) {
    (LIB.to_owned(), LIB_ID.to_vec())
}

/// Records that do not compress, of about the given size in all.
fn noise(mut b: Builder, bytes: usize) -> Builder {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for i in 0..bytes / 1000 {
        let raw: Vec<u8> = (0..124)
            .flat_map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            })
            .collect();
        let time = 200 + i as u64;
        b = b.sample(&Sample { raw: raw[..988].to_vec(), ..Sample::user(10, 0x40_0010, time) });
    }
    b
}

fn raw_attr() -> AttrSpec {
    AttrSpec::new(st::IP | st::TID | st::TIME | st::ID | st::PERIOD | st::RAW)
}
