//! The kit's own tests: what the builder writes, the oracle and an independent crate read, in both byte orders,
//! and the converter to the other order is right on what the builder wrote in that order itself.

use super::support::builder::{AttrSpec, Builder, Map, Sample, build_id};
use super::support::recording::{feature, flag, flags_big, flags_little, kind, misc, st};
use super::support::wire::Order;
use super::support::write::Framing;
use super::support::{compare, oracle, places, swap};

/// A recording of every record type and every sample field.
fn everything(order: Order) -> Builder {
    Builder::with(order, &AttrSpec::everything())
        .identity()
        .build_id_table(&[build_id("/usr/bin/app", &[0x11; 20]), build_id("/usr/lib/x", &[0x22; 8])])
        .feature(140, b"private")
        .feature(200, &[1, 2, 3])
        .every_user_record()
        .every_kernel_record()
        .build_id(&build_id("/usr/bin/app", &[0x33; 16]))
        .tracing_data(b"not real tracing")
}

#[test]
fn the_oracle_reads_what_the_builder_wrote() {
    for order in Order::BOTH {
        let recording = everything(order).finish();
        let mut read = oracle::parse(&recording.to_file()).unwrap();
        // the index is the writer's
        let index = read.features.insert(feature::AUXTRACE, Vec::new()).unwrap();
        assert_eq!(order.u64(&index, 0), 1);
        assert_eq!(read, recording);
        assert_eq!(recording.kinds().into_iter().filter(|&k| k <= 22).count(), 23);
        assert!((1..=22).all(|k| recording.count(k) > 0));
    }
}

#[test]
fn the_twin_is_what_the_builder_writes_in_that_order() {
    for order in Order::BOTH {
        let mut there = swap::twin(&everything(order).finish());
        let mut here = everything(order.other()).finish();
        // AttrSpec::everything dumps a stack whose words the twin swaps; the builder writes bytes
        let stack: Vec<u8> = (0..64).collect();
        let twisted: Vec<u8> = stack.chunks(8).flat_map(|w| w.iter().rev().copied()).collect();
        let sample = here.records.iter_mut().find(|r| r.kind(order.other()) == kind::SAMPLE).unwrap();
        let at = sample.bytes.windows(64).position(|w| w == stack).unwrap();
        sample.bytes[at..at + 64].copy_from_slice(&twisted);
        there.features.insert(feature::AUXTRACE, Vec::new());
        assert_eq!(there.order, here.order);
        compare::same(&here, &there, &[]).unwrap();
    }
}

#[test]
fn flags_keep_their_values_on_the_other_compiler() {
    // the first declared bit is the highest of the word, precise_ip's two bits keep their order
    assert_eq!(flags_big(flag::DISABLED), 1 << 63);
    assert_eq!(flags_big(flag::SAMPLE_ID_ALL), 1 << 45);
    assert_eq!(flags_big(2 << 15), 2 << 47);
    assert_eq!(flags_little(flags_big(0x0123_4567_89ab_cdef)), 0x0123_4567_89ab_cdef);
}

#[test]
fn compressed_records_straddle_chunks_and_come_out_whole() {
    for order in Order::BOTH {
        let plain = Builder::with(order, &AttrSpec::plain()).every_kernel_record().finish();
        for framing in [Framing::V1, Framing::V2] {
            let packed = plain.compressed(framing, 100);
            assert!(packed.records.len() > 5);
            let mut read = oracle::parse(&packed.to_file()).unwrap();
            assert_eq!(read.features.remove(&feature::COMPRESSED).unwrap().len(), 20);
            compare::same(&plain, &read, &[]).unwrap();
        }
    }
}

#[test]
fn an_independent_reader_agrees() {
    for order in Order::BOTH {
        let bytes = Builder::with(order, &AttrSpec::plain())
            .identity()
            .build_id_table(&[build_id("/usr/bin/app", &[0x11; 20])])
            .at(10, 10, 1)
            .exec(10, "app")
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, "/usr/bin/app"))
            .sample(&Sample::user(10, 0x40_0010, 5))
            .sample(&Sample::user(10, 0x40_0020, 7))
            .finished_round()
            .file();
        assert_eq!(independent(&bytes), (2, vec![5, 7]));
    }
}

/// Samples and their times as the linux-perf-data crate reads them.
fn independent(bytes: &[u8]) -> (usize, Vec<u64>) {
    let reader = linux_perf_data::PerfFileReader::parse_file(std::io::Cursor::new(bytes)).unwrap();
    let (mut file, mut records) = (reader.perf_file, reader.record_iter);
    let mut times = Vec::new();
    while let Some(record) = records.next_record(&mut file).unwrap() {
        if let linux_perf_data::PerfFileRecord::EventRecord { record, .. } = record
            && let linux_perf_data::linux_perf_event_reader::EventRecord::Sample(s) = record.parse().unwrap()
        {
            times.push(s.timestamp.unwrap());
        }
    }
    (times.len(), times)
}

#[test]
fn every_corpus_recording_is_read_whole_and_its_twin_turns_back() {
    for path in places::recordings() {
        let name = places::name(&path);
        let read = match oracle::read(&path) {
            Ok(read) => read,
            Err(e) if name.contains("corrupted") => {
                eprintln!("{name}: {e}");
                continue;
            }
            Err(e) => panic!("{name}: {e}"),
        };
        assert!(!read.records.is_empty(), "{name}");
        let twin = swap::twin(&read);
        let back = swap::twin(&twin);
        compare::same(&read, &back, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let reread = oracle::parse(&twin.to_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        compare::same(&twin, &reread, &[feature::AUXTRACE]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let both = (compare::content(&read), compare::content(&twin));
        for (a, b) in both.0.attrs.iter().zip(&both.1.attrs) {
            assert_eq!(a.sample_type(read.order), b.sample_type(twin.order), "{name}");
            assert_eq!(a.flags(read.order), b.flags(twin.order), "{name}");
        }
        assert_eq!(oracle::table_of(&read), oracle::table_of(&twin), "{name}");
    }
}

#[test]
fn a_build_id_entry_has_36_bytes_and_its_padded_name() {
    let e = build_id("/a", &[7; 8]);
    for order in Order::BOTH {
        let raw = super::support::builder::build_id_entry(order, &e, 0);
        assert_eq!(raw.len(), 36 + 64);
        assert_eq!(order.u16(&raw, 4), misc::USER | misc::BUILD_ID_SIZE);
        assert_eq!(raw[32], 8);
        assert_eq!(oracle::build_id_table(order, &raw), std::slice::from_ref(&e));
    }
    assert_eq!(st::ALL & st::WEIGHT, 0);
}
