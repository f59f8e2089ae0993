//! What maps cost: inserting in and out of order, finding, forking, and a fork storm through the session.
//!
//! `cargo bench --bench maps [-- PART-OF-A-NAME]` prints nanoseconds per operation, the best of several runs.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use repipe::abi::misc::CpuMode;
use repipe::event::mmap::{FileId, Mmap};
use repipe::event::task::{Comm, Fork};
use repipe::session::dso::{Dso, DsoKind};
use repipe::session::map::{Extent, Map};
use repipe::session::maps::MapArray;
use repipe::session::{Arch, HOST, Maps, Session};

const RUNS: usize = 7;

/// Prints the best time of several runs, divided by the operations of one. `prepare` is not timed, nor is the
/// dropping of what `run` returns.
fn bench<P, R>(name: &str, operations: u64, mut prepare: impl FnMut() -> P, mut run: impl FnMut(P) -> R) {
    // Cargo adds `--bench`.
    if std::env::args().skip(1).any(|arg| !arg.starts_with("--") && !name.contains(&arg)) {
        return;
    }
    let best = (0..RUNS).map(|_| {
        let prepared = prepare();
        let start = Instant::now();
        let result = black_box(run(prepared));
        let elapsed = start.elapsed();
        drop(result);
        elapsed
    });
    let nanoseconds = best.min().unwrap_or_default().as_nanos() as f64 / operations as f64;
    println!("{name:44} {nanoseconds:10.1} ns");
}

/// Numbers below `bound` in no order, the same each run.
fn scattered(count: u64, bound: u64) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    std::iter::repeat_with(next).take(count as usize).collect()
}

fn map(slot: u64, dso: &Arc<Dso>) -> Arc<Map> {
    let start = 0x7f00_0000_0000 + slot * 0x5000;
    Arc::new(Map::new(Extent { start, end: start + 0x1000, pgoff: 0x1000 }, Arc::clone(dso), 5, 2))
}

fn insert_and_find(dso: &Arc<Dso>, count: u64) {
    let ascending: Vec<u64> = (0..count).collect();
    let mut descending = ascending.clone();
    descending.reverse();
    let mut random = ascending.clone();
    for (i, j) in scattered(count, count).into_iter().enumerate() {
        random.swap(i, j as usize);
    }
    for (order, slots) in [("sorted", &ascending), ("reversed", &descending), ("random", &random)] {
        let maps = || slots.iter().map(|&slot| map(slot, dso)).collect::<Vec<_>>();
        bench(&format!("insert {order}, {count} maps, then sort"), count, maps, |maps| {
            let mut array = MapArray::default();
            maps.into_iter().for_each(|map| array.fixup_overlap_and_insert(map));
            array.sort();
            array
        });
    }
    let filled = || {
        let mut array = MapArray::default();
        random.iter().for_each(|&slot| array.insert(map(slot, dso)));
        array.sort();
        array
    };
    let ips: Vec<u64> =
        scattered(1 << 16, count).iter().map(|slot| 0x7f00_0000_0000 + slot * 0x5000 + 9).collect();
    bench(&format!("find random, {count} maps"), ips.len() as u64, filled, |mut array| {
        let found = ips.iter().filter(|&&ip| array.find(ip).is_some()).count();
        (found, array)
    });
    let same = ips.first().copied().unwrap_or_default();
    bench(&format!("find the same again, {count} maps"), 1 << 16, filled, |mut array| {
        let found = (0..1 << 16).filter(|i| array.find(black_box(same + i % 64)).is_some()).count();
        (found, array)
    });
    let locked = || {
        let maps = Maps::new();
        random.iter().for_each(|&slot| maps.insert(map(slot, dso)));
        maps.find(0);
        maps
    };
    bench(&format!("find random under the lock, {count} maps"), ips.len() as u64, locked, |maps| {
        let found = ips.iter().filter(|&&ip| maps.find(ip).is_some()).count();
        (found, maps)
    });
    bench(&format!("fork, {count} maps"), 1000, filled, |mut array| {
        let fork = |_| {
            let mut child = MapArray::default();
            child.copy_from(&mut array);
            child
        };
        let forks = (0..1000).map(fork).collect::<Vec<_>>();
        (forks, array)
    });
    bench(&format!("first change after a fork, {count} maps"), 1, filled, |mut array| {
        let mut child = MapArray::default();
        child.copy_from(&mut array);
        child.fixup_overlap_and_insert(map(0, dso));
        child.sort();
        (array, child)
    });
}

/// Processes that fork, exec, map libraries from the top down and exit; of few of them a sample is resolved.
fn fork_storm(name: &str, samples_per_process: u64) {
    const PROCESSES: i32 = 9000;
    const MAPS: u64 = 28;
    let names: Vec<Vec<u8>> =
        (0..800).map(|i| format!("/usr/lib/x86_64-linux-gnu/storm/libnumber{i}.so.1").into_bytes()).collect();
    bench(
        name,
        PROCESSES as u64 * MAPS,
        || Session::new(Arch::from_name("x86_64")),
        |mut session| {
            for pid in 2..PROCESSES + 2 {
                session.fork(HOST, &Fork { pid, ppid: 1, tid: pid, ptid: 1, time: 0, exec: false });
                session.comm(HOST, &Comm { pid, tid: pid, exec: true, comm: b"storm" });
                for i in 0..MAPS {
                    let file = (pid as usize * 7 + i as usize * 31) % names.len();
                    session.mmap(
                        HOST,
                        &Mmap {
                            misc: 2,
                            pid,
                            tid: pid,
                            start: 0x7f00_0000_0000 - i * 0x5000,
                            len: 0x1000,
                            pgoff: 0x1000,
                            file: FileId::Inode {
                                maj: 254,
                                min: 0,
                                ino: 5_000_000 + file as u64,
                                generation: 9,
                            },
                            prot: 5,
                            flags: 2,
                            filename: &names[file],
                        },
                    );
                }
                for i in 0..samples_per_process {
                    let found = session
                        .view(HOST, pid, pid)
                        .find(CpuMode::User, 0x7f00_0000_0000 - i * 0x5000)
                        .is_some();
                    assert!(found);
                }
                session.exit(HOST, &Fork { pid, ppid: 1, tid: pid, ptid: 1, time: 0, exec: false });
                if pid % 128 == 0 {
                    session.round();
                }
            }
            session
        },
    );
}

fn main() {
    let dso = Dso::detached(b"/lib/x.so", DsoKind::User);
    for count in [28, 1000, 65_000] {
        insert_and_find(&dso, count);
    }
    fork_storm("fork storm, per mmap, no sample", 0);
    fork_storm("fork storm, per mmap, 4 samples a process", 4);
}
