//! Feature sections, one file each or per family: parse and emit together.
//!
//! Input is the section's bytes (or those of a pipe's HEADER_FEATURE record after its feature id) and the
//! recording's byte order. Every size, count and string end is checked against the bytes that are there;
//! an [`Error`](crate::error::Error) names the section, and its offset counts from the section's first byte.
//! Layouts are those of perf's `header.c` and simpleperf's `record_file_format.h`. Bytes after what is known
//! are left alone, as perf does.

pub mod auxtrace;
pub mod bpf;
pub mod build_ids;
pub mod cache;
pub mod cpu_domains;
pub mod cpu_topology;
pub mod event_desc;
pub mod group_desc;
pub mod memory;
pub mod pmu;
mod reader;
pub mod scalars;
pub mod simpleperf;
pub mod strings;
pub mod tracing_data;

use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// A section, parsed.
#[derive(Debug)]
pub enum Section<'a> {
    /// TRACING_DATA.
    TracingData(tracing_data::TracingData),
    /// BUILD_ID.
    BuildIds(build_ids::BuildIdTable<'a>),
    /// HOSTNAME, OSRELEASE, VERSION, ARCH, CPUDESC, CPUID.
    Text(String),
    /// NRCPUS.
    NrCpus(scalars::NrCpus),
    /// TOTAL_MEM, KiB.
    TotalMem(u64),
    /// CMDLINE.
    Cmdline(Vec<String>),
    /// EVENT_DESC.
    EventDesc(event_desc::EventDesc<'a>),
    /// CPU_TOPOLOGY.
    CpuTopology(cpu_topology::CpuTopology),
    /// NUMA_TOPOLOGY.
    NumaTopology(Vec<memory::NumaNode>),
    /// BRANCH_STACK and STAT: being there is all they say.
    Flag,
    /// PMU_MAPPINGS.
    PmuMappings(Vec<pmu::Pmu>),
    /// GROUP_DESC.
    GroupDesc(Vec<group_desc::Group>),
    /// AUXTRACE.
    Auxtrace(auxtrace::AuxtraceIndex),
    /// CACHE.
    Cache(Vec<cache::CacheLevel>),
    /// SAMPLE_TIME.
    SampleTime(scalars::SampleTime),
    /// MEM_TOPOLOGY.
    MemTopology(memory::MemTopology),
    /// CLOCKID, ns.
    ClockId(u64),
    /// DIR_FORMAT, a version.
    DirFormat(u64),
    /// BPF_PROG_INFO.
    BpfPrograms(Vec<bpf::BpfProgram<'a>>),
    /// BPF_BTF.
    BpfBtf(Vec<bpf::Btf<'a>>),
    /// COMPRESSED.
    Compressed(scalars::Compressed),
    /// CPU_PMU_CAPS.
    CpuPmuCaps(pmu::PmuCaps),
    /// CLOCK_DATA.
    ClockData(scalars::ClockData),
    /// HYBRID_TOPOLOGY.
    HybridTopology(Vec<pmu::HybridPmu>),
    /// PMU_CAPS.
    PmuCaps(Vec<pmu::PmuCaps>),
    /// CPU_DOMAIN_INFO.
    CpuDomains(cpu_domains::CpuDomains),
    /// E_MACHINE.
    EMachine(scalars::EMachine),
    /// CLN_SIZE, bytes.
    CacheLineSize(u32),
    /// simpleperf's FILE and FILE2.
    SimpleperfFiles(Vec<simpleperf::SimpleperfFile>),
    /// simpleperf's META_INFO.
    SimpleperfMeta(Vec<(String, String)>),
    /// A section whose layout is not known here.
    Opaque,
}

impl<'a> Section<'a> {
    /// Parses a section. `cpus` is NRCPUS's number of available CPUs, which CPU_TOPOLOGY's layout depends
    /// on. Errors if the section breaks its layout; a BUILD_ID table tells of that within itself.
    pub fn parse(
        feature: Feature,
        section: &'a [u8],
        order: ByteOrder,
        cpus: Option<u32>,
    ) -> Result<Section<'a>> {
        Ok(match feature {
            Feature::TRACING_DATA => Section::TracingData(tracing_data::TracingData::parse(section)?),
            Feature::BUILD_ID => Section::BuildIds(build_ids::BuildIdTable::parse(section, order)),
            Feature::HOSTNAME
            | Feature::OSRELEASE
            | Feature::VERSION
            | Feature::ARCH
            | Feature::CPUDESC
            | Feature::CPUID => Section::Text(strings::parse(feature, section, order)?),
            Feature::NRCPUS => Section::NrCpus(scalars::NrCpus::parse(section, order)?),
            Feature::TOTAL_MEM => Section::TotalMem(scalars::parse_total_mem(section, order)?),
            Feature::CMDLINE => Section::Cmdline(strings::parse_cmdline(section, order)?),
            Feature::EVENT_DESC => Section::EventDesc(event_desc::EventDesc::parse(section, order)?),
            Feature::CPU_TOPOLOGY => {
                Section::CpuTopology(cpu_topology::CpuTopology::parse(section, order, cpus)?)
            }
            Feature::NUMA_TOPOLOGY => Section::NumaTopology(memory::parse_numa(section, order)?),
            Feature::BRANCH_STACK | Feature::STAT => Section::Flag,
            Feature::PMU_MAPPINGS => Section::PmuMappings(pmu::parse_mappings(section, order)?),
            Feature::GROUP_DESC => Section::GroupDesc(group_desc::parse(section, order)?),
            Feature::AUXTRACE => Section::Auxtrace(auxtrace::AuxtraceIndex::parse(section, order)?),
            Feature::CACHE => Section::Cache(cache::parse(section, order)?),
            Feature::SAMPLE_TIME => Section::SampleTime(scalars::SampleTime::parse(section, order)?),
            Feature::MEM_TOPOLOGY => Section::MemTopology(memory::MemTopology::parse(section, order)?),
            Feature::CLOCKID => Section::ClockId(scalars::parse_clockid(section, order)?),
            Feature::DIR_FORMAT => Section::DirFormat(scalars::parse_dir_format(section, order)?),
            Feature::BPF_PROG_INFO => Section::BpfPrograms(bpf::parse_programs(section, order)?),
            Feature::BPF_BTF => Section::BpfBtf(bpf::parse_btf(section, order)?),
            Feature::COMPRESSED => Section::Compressed(scalars::Compressed::parse(section, order)?),
            Feature::CPU_PMU_CAPS => Section::CpuPmuCaps(pmu::parse_cpu_caps(section, order)?),
            Feature::CLOCK_DATA => Section::ClockData(scalars::ClockData::parse(section, order)?),
            Feature::HYBRID_TOPOLOGY => Section::HybridTopology(pmu::parse_hybrid(section, order)?),
            Feature::PMU_CAPS => Section::PmuCaps(pmu::parse_caps(section, order)?),
            Feature::CPU_DOMAIN_INFO => Section::CpuDomains(cpu_domains::CpuDomains::parse(section, order)?),
            Feature::E_MACHINE => Section::EMachine(scalars::EMachine::parse(section, order)?),
            Feature::CLN_SIZE => Section::CacheLineSize(scalars::parse_cache_line_size(section, order)?),
            Feature::SIMPLEPERF_FILE => Section::SimpleperfFiles(simpleperf::parse_files(section, order)?),
            Feature::SIMPLEPERF_META_INFO => Section::SimpleperfMeta(simpleperf::parse_meta_info(section)?),
            Feature::SIMPLEPERF_FILE2 => Section::SimpleperfFiles(simpleperf::parse_files2(section, order)?),
            _ => Section::Opaque,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that look like counts and strings often enough to get deep into a parser.
    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..len)
            .map(|_| match next() % 8 {
                0..5 => 0,
                5 => 1,
                6 => (next() % 16) as u8,
                _ => next() as u8,
            })
            .collect()
    }

    #[test]
    fn no_bytes_make_a_parser_panic_or_loop() {
        for feature in (0..40).chain(126..138).map(Feature) {
            for seed in 0..400 {
                let bytes = noise(seed, (seed % 130) as usize);
                for order in [ByteOrder::Little, ByteOrder::Big] {
                    for cpus in [None, Some(2), Some(u32::MAX)] {
                        if let Err(e) = Section::parse(feature, &bytes, order, cpus) {
                            assert!(e.offset().is_some_and(|at| at <= bytes.len() as u64), "{feature}: {e}");
                            assert!(e.to_string().contains(&format!("in the {feature} section")), "{e}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sections_that_are_not_known_are_opaque() {
        for feature in [Feature(60), Feature::SIMPLEPERF_INIT_MAP] {
            assert!(matches!(Section::parse(feature, &[1], ByteOrder::Big, None), Ok(Section::Opaque)));
        }
        assert!(matches!(Section::parse(Feature::STAT, &[], ByteOrder::Big, None), Ok(Section::Flag)));
    }
}
