//! Feature sections.

use std::collections::BTreeSet;

use repipe_plugin::edit::with_text;
use repipe_plugin::{Host, Order};

use super::options::Options;
use super::rules::Rules;

const TRACING_DATA: u32 = 1;
const BUILD_ID: u32 = 2;
const HOSTNAME: u32 = 3;
const CMDLINE: u32 = 11;
/// Sections of texts, and with texts among them: OSRELEASE, VERSION, ARCH, CPUDESC, CPUID, EVENT_DESC, CPU_TOPOLOGY,
/// NUMA_TOPOLOGY, PMU_MAPPINGS, GROUP_DESC, CACHE, CPU_PMU_CAPS, HYBRID_TOPOLOGY, PMU_CAPS and CPU_DOMAIN_INFO.
const TEXTS: [u32; 15] = [4, 5, 6, 8, 9, 12, 13, 14, 16, 17, 20, 28, 30, 31, 32];
/// Sections of numbers alone: NRCPUS, TOTAL_MEM, BRANCH_STACK, AUXTRACE, STAT, SAMPLE_TIME, MEM_TOPOLOGY, CLOCKID,
/// DIR_FORMAT, COMPRESSED, CLOCK_DATA, E_MACHINE and CLN_SIZE.
const NUMBERS: [u32; 13] = [7, 10, 15, 18, 19, 21, 22, 23, 24, 27, 29, 33, 34];
/// Ids that a file has bits for.
const IDS: u32 = 256;

/// Where the path begins in an entry of the table of build-ids.
const PATH: usize = 36;

/// Hides what sections tell, as far as it is not hidden yet; `left_out` gets the ids of those that go as a whole.
pub fn hide(options: &Options, host: &mut Host<'_>, left_out: &mut BTreeSet<u32>) -> Result<(), String> {
    let order = host.order();
    let rules = &options.rules;
    for id in 0..IDS {
        let Some(section) = host.feature(id) else { continue };
        let new = match id {
            CMDLINE => None,
            HOSTNAME => match hostname(rules, section, order) {
                Some(new) => Some(new),
                None => continue,
            },
            BUILD_ID => Some(table(rules, section, order)?),
            TRACING_DATA => Some(scrubbed(rules, section, true)),
            id if TEXTS.contains(&id) => Some(scrubbed(rules, section, false)),
            id if options.keeps_others || NUMBERS.contains(&id) => continue,
            // perf writes sections of BPF programs even if there were none: zeros tell nothing.
            _ if section.iter().all(|&byte| byte == 0) => continue,
            id => {
                left_out.insert(id);
                None
            }
        };
        if new.as_deref() != Some(section) {
            host.set_feature(id, new.as_deref())?;
        }
    }
    Ok(())
}

/// Whether the recording's tracing data is at hand.
pub fn has_tracing_data(host: &mut Host<'_>) -> bool {
    host.feature(TRACING_DATA).is_some()
}

fn scrubbed(rules: &Rules, section: &[u8], comms: bool) -> Vec<u8> {
    let mut new = section.to_vec();
    rules.scrub(&mut new, comms);
    new
}

/// The section with another name; `None` if that was done already.
fn hostname(rules: &Rules, section: &[u8], order: Order) -> Option<Vec<u8>> {
    let text = section.get(4..).unwrap_or_default();
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    let mut hidden = rules.host(text.get(..end).unwrap_or_default())?;
    // perf pads strings of sections to 64 bytes.
    hidden.resize((hidden.len() + 1).next_multiple_of(64), 0);
    Some([&order.bytes32(hidden.len() as u32), hidden.as_slice()].concat())
}

fn table(rules: &Rules, table: &[u8], order: Order) -> Result<Vec<u8>, String> {
    let mut new = Vec::with_capacity(table.len());
    let mut rest = table;
    while let Some(size) = order.u16(rest, 6).map(usize::from).filter(|&size| size > PATH) {
        let Some((entry, others)) = rest.split_at_checked(size) else { break };
        rest = others;
        let path = entry.get(PATH..).unwrap_or_default();
        let end = path.iter().position(|&b| b == 0).unwrap_or(path.len());
        match path.get(..end).and_then(|path| rules.path(path)) {
            Some(path) => new.extend(with_text(entry, PATH, &path, order)?),
            None => new.extend_from_slice(entry),
        }
    }
    new.extend_from_slice(rest);
    Ok(new)
}
