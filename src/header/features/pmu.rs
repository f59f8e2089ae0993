//! PMU_MAPPINGS: PMU types and names; CPU_PMU_CAPS and PMU_CAPS: their capabilities; HYBRID_TOPOLOGY: which
//! CPUs a core PMU covers.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// A PMU of PMU_MAPPINGS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// The type of attrs of this PMU.
    pub pmu_type: u32,
    /// Name as in sysfs.
    pub name: String,
}

/// Parses PMU_MAPPINGS. Errors if the PMUs announced are not all there.
pub fn parse_mappings(section: &[u8], order: ByteOrder) -> Result<Vec<Pmu>> {
    let mut r = Reader::new(Feature::PMU_MAPPINGS, section, order);
    let n = r.count(8)?;
    (0..n).map(|_| Ok(Pmu { pmu_type: r.u32()?, name: r.string()? })).collect()
}

/// Capabilities of one PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuCaps {
    /// Name of the PMU; empty in CPU_PMU_CAPS, which speaks of the core PMU.
    pub pmu: String,
    /// Names with their values.
    pub caps: Vec<(String, String)>,
}

fn caps(r: &mut Reader<'_>) -> Result<Vec<(String, String)>> {
    let n = r.count(8)?;
    (0..n).map(|_| Ok((r.string()?, r.string()?))).collect()
}

/// Parses CPU_PMU_CAPS: capabilities of the core PMU. Errors if those announced are not all there.
pub fn parse_cpu_caps(section: &[u8], order: ByteOrder) -> Result<PmuCaps> {
    let mut r = Reader::new(Feature::CPU_PMU_CAPS, section, order);
    Ok(PmuCaps { pmu: String::new(), caps: caps(&mut r)? })
}

/// Parses PMU_CAPS: capabilities of each PMU that has some. Errors if those announced are not all there.
pub fn parse_caps(section: &[u8], order: ByteOrder) -> Result<Vec<PmuCaps>> {
    let mut r = Reader::new(Feature::PMU_CAPS, section, order);
    let n = r.count(8)?;
    let one = |_| {
        // the name comes after the capabilities
        let caps = caps(&mut r)?;
        Ok(PmuCaps { pmu: r.string()?, caps })
    };
    (0..n).map(one).collect()
}

/// A core PMU of HYBRID_TOPOLOGY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridPmu {
    /// Name of the PMU, such as `cpu_core`.
    pub pmu: String,
    /// CPU list such as `0-15`.
    pub cpus: String,
}

/// Parses HYBRID_TOPOLOGY. Errors if the PMUs announced are not all there.
pub fn parse_hybrid(section: &[u8], order: ByteOrder) -> Result<Vec<HybridPmu>> {
    let mut r = Reader::new(Feature::HYBRID_TOPOLOGY, section, order);
    let n = r.count(8)?;
    (0..n).map(|_| Ok(HybridPmu { pmu: r.string()?, cpus: r.string()? })).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::strings;
    use super::*;

    const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

    #[test]
    fn mappings_pair_types_with_names() {
        for order in ORDERS {
            let mut section = Vec::new();
            order.put_u32(&mut section, 2);
            for (pmu_type, name) in [(4, "cpu"), (1, "software")] {
                order.put_u32(&mut section, pmu_type);
                strings::emit(name.as_bytes(), order, &mut section);
            }
            let pmus = parse_mappings(&section, order).unwrap();
            assert_eq!(pmus.len(), 2);
            assert_eq!(pmus[0], Pmu { pmu_type: 4, name: "cpu".into() });
            assert_eq!(pmus[1], Pmu { pmu_type: 1, name: "software".into() });
        }
        assert_eq!(parse_mappings(&[0xff; 12], ByteOrder::Little).unwrap_err().offset(), Some(0));
    }

    #[test]
    fn a_pmus_name_follows_its_capabilities() {
        for order in ORDERS {
            let mut caps = Vec::new();
            order.put_u32(&mut caps, 2);
            for word in ["branches", "32", "max_precise", "3"] {
                strings::emit(word.as_bytes(), order, &mut caps);
            }
            let expected: Vec<(String, String)> =
                vec![("branches".into(), "32".into()), ("max_precise".into(), "3".into())];
            assert_eq!(
                parse_cpu_caps(&caps, order).unwrap(),
                PmuCaps { pmu: "".into(), caps: expected.clone() }
            );

            let mut section = Vec::new();
            order.put_u32(&mut section, 2);
            section.extend(&caps);
            strings::emit(b"cpu_core", order, &mut section);
            order.put_u32(&mut section, 0);
            strings::emit(b"cpu_atom", order, &mut section);
            let all = parse_caps(&section, order).unwrap();
            assert_eq!(all[0], PmuCaps { pmu: "cpu_core".into(), caps: expected });
            assert_eq!(all[1], PmuCaps { pmu: "cpu_atom".into(), caps: vec![] });
            assert!(parse_caps(&section[..section.len() - 1], order).is_err());
        }
    }

    #[test]
    fn hybrid_pmus_name_their_cpus() {
        for order in ORDERS {
            let mut section = Vec::new();
            order.put_u32(&mut section, 1);
            strings::emit(b"cpu_core", order, &mut section);
            strings::emit(b"0-15", order, &mut section);
            let expected = HybridPmu { pmu: "cpu_core".into(), cpus: "0-15".into() };
            assert_eq!(parse_hybrid(&section, order).unwrap(), [expected]);
        }
    }
}
