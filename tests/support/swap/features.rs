//! Feature sections in the other order.

use super::super::recording::feature;
use super::Flip;

impl Flip<'_> {
    pub(super) fn feature(&mut self, id: u32, cpus: usize) -> Option<()> {
        match id {
            feature::BUILD_ID => self.build_ids(),
            feature::HOSTNAME
            | feature::OSRELEASE
            | feature::VERSION
            | feature::ARCH
            | feature::CPUDESC
            | feature::CPUID => self.string(),
            feature::NRCPUS => self.u32s(2),
            feature::TOTAL_MEM | feature::CLOCKID | feature::DIR_FORMAT => self.u64().map(drop),
            feature::CMDLINE => self.strings(),
            feature::EVENT_DESC => self.event_desc(),
            feature::CPU_TOPOLOGY => {
                self.strings()?;
                self.strings()?;
                self.u32s(2 * cpus)?;
                self.strings()?;
                self.u32s(cpus)
            }
            feature::NUMA_TOPOLOGY => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.u32()?;
                    self.u64s(2)?;
                    self.string()
                })
            }
            feature::PMU_MAPPINGS => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.u32()?;
                    self.string()
                })
            }
            feature::GROUP_DESC => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.string()?;
                    self.u32s(2)
                })
            }
            feature::CACHE => {
                self.u32()?;
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.u32s(4)?;
                    (0..3).try_for_each(|_| self.string())
                })
            }
            feature::AUXTRACE | feature::SAMPLE_TIME | feature::MEM_TOPOLOGY => self.u64s(self.left() / 8),
            feature::COMPRESSED => self.u32s(5),
            feature::CLOCK_DATA => {
                self.u32s(2)?;
                self.u64s(2)
            }
            feature::CPU_PMU_CAPS | feature::HYBRID_TOPOLOGY => {
                let n = self.u32()?;
                (0..2 * n).try_for_each(|_| self.string())
            }
            feature::PMU_CAPS => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    let caps = self.u32()?;
                    (0..2 * caps).try_for_each(|_| self.string())?;
                    self.string()
                })
            }
            _ => Some(()),
        }
    }

    pub(super) fn build_ids(&mut self) -> Option<()> {
        while self.left() >= 36 {
            let start = self.at;
            self.u32()?;
            self.u16()?;
            let size = usize::from(self.u16()?);
            self.u32()?;
            self.raw(size.checked_sub(self.at - start)?)?;
        }
        Some(())
    }

    pub(super) fn event_desc(&mut self) -> Option<()> {
        let n = self.u32()?;
        let size = self.u32()? as usize;
        (0..n).try_for_each(|_| {
            self.attr(size)?;
            let ids = self.u32()? as usize;
            self.string()?;
            self.u64s(ids)
        })
    }
}
