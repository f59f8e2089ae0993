//! CPU_DOMAIN_INFO: scheduler domains of each CPU that was on line.
//!
//! Two u32 (version of /proc/schedstat, most domains of a CPU), then per CPU its number and count of
//! domains, and per domain its number, its name (schedstat 17 and later), CPU mask and CPU list.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// Version of /proc/schedstat from which on domains are named.
const NAMED_SINCE: u32 = 17;

/// The section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuDomains {
    /// Version of /proc/schedstat.
    pub schedstat_version: u32,
    /// The most domains of a CPU.
    pub max_domains: u32,
    /// CPUs in the order of the section.
    pub cpus: Vec<CpuDomainList>,
}

/// A CPU of [`CpuDomains`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuDomainList {
    /// Number of the CPU.
    pub cpu: u32,
    /// Its domains, from the smallest.
    pub domains: Vec<Domain>,
}

/// A scheduler domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Number of the domain.
    pub domain: u32,
    /// Name such as `MC`, if the kernel tells it.
    pub name: Option<String>,
    /// Mask of CPUs in hex.
    pub cpu_mask: String,
    /// List of CPUs.
    pub cpu_list: String,
}

impl CpuDomains {
    /// Parses the section; its CPUs end where it ends. Errors if one is cut short.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<CpuDomains> {
        let mut r = Reader::new(Feature::CPU_DOMAIN_INFO, section, order);
        let (schedstat_version, max_domains) = (r.u32()?, r.u32()?);
        let mut cpus = Vec::new();
        while !r.at_end() {
            let cpu = r.u32()?;
            let n = r.count(12)?;
            let one = |_| {
                let domain = r.u32()?;
                let name = if schedstat_version >= NAMED_SINCE { Some(r.string()?) } else { None };
                Ok(Domain { domain, name, cpu_mask: r.string()?, cpu_list: r.string()? })
            };
            cpus.push(CpuDomainList { cpu, domains: (0..n).map(one).collect::<Result<_>>()? });
        }
        Ok(CpuDomains { schedstat_version, max_domains, cpus })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::strings;
    use super::*;

    #[test]
    fn domains_have_names_from_schedstat_17_on() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for version in [16, 17] {
                let mut section = Vec::new();
                for word in [version, 2, 0, 1, 0] {
                    order.put_u32(&mut section, word);
                }
                if version == 17 {
                    strings::emit(b"MC", order, &mut section);
                }
                strings::emit(b"00000003", order, &mut section);
                strings::emit(b"0-1", order, &mut section);
                order.put_u32(&mut section, 1);
                order.put_u32(&mut section, 0);
                let info = CpuDomains::parse(&section, order).unwrap();
                assert_eq!((info.schedstat_version, info.max_domains), (version, 2));
                let domain = Domain {
                    domain: 0,
                    name: (version == 17).then(|| "MC".into()),
                    cpu_mask: "00000003".into(),
                    cpu_list: "0-1".into(),
                };
                assert_eq!(info.cpus[0], CpuDomainList { cpu: 0, domains: vec![domain] });
                assert_eq!(info.cpus[1], CpuDomainList { cpu: 1, domains: vec![] });
                assert!(CpuDomains::parse(&section[..section.len() - 2], order).is_err());
            }
        }
    }
}
