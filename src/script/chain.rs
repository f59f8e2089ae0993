//! Callchains: markers say who ran, addresses are what they called from.

use crate::abi::misc::{
    CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER, CONTEXT_HV, CONTEXT_KERNEL, CONTEXT_MAX, CONTEXT_USER,
    CONTEXT_USER_DEFERRED, CpuMode,
};
use crate::bytes::ByteOrder;

/// Calls `frame` for every address of a callchain, up to `most`, with its cpumode. False, after which no frame of the chain counts,
/// if a marker is unknown.
#[inline]
pub(super) fn walk(
    entries: &[u8],
    order: ByteOrder,
    most: usize,
    mut frame: impl FnMut(CpuMode, u64),
) -> bool {
    let mut mode = CpuMode::User;
    let mut count = 0;
    for entry in entries.chunks_exact(8) {
        let ip = order.u64(entry, 0).unwrap_or(0);
        if count >= most {
            break;
        }
        if ip < CONTEXT_MAX {
            count += 1;
            frame(mode, ip);
            continue;
        }
        mode = match ip {
            CONTEXT_HV => CpuMode::Hypervisor,
            CONTEXT_KERNEL => CpuMode::Kernel,
            CONTEXT_USER => CpuMode::User,
            CONTEXT_GUEST_KERNEL => CpuMode::GuestKernel,
            CONTEXT_GUEST_USER => CpuMode::GuestUser,
            // What follows is a cookie; the user part comes in a record of its own.
            CONTEXT_USER_DEFERRED => break,
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(entries: &[u64]) -> (bool, Vec<(CpuMode, u64)>) {
        let bytes: Vec<u8> = entries.iter().flat_map(|e| e.to_be_bytes()).collect();
        let mut out = Vec::new();
        let valid = walk(&bytes, ByteOrder::Big, 127, |mode, ip| out.push((mode, ip)));
        (valid, out)
    }

    #[test]
    fn markers_set_the_mode() {
        let entries = [5, CONTEXT_KERNEL, 6, CONTEXT_USER, 7, CONTEXT_USER_DEFERRED, 99];
        let expected = vec![(CpuMode::User, 5), (CpuMode::Kernel, 6), (CpuMode::User, 7)];
        assert_eq!(chain(&entries), (true, expected));
        assert!(!chain(&[CONTEXT_MAX, 1]).0);
        assert_eq!(chain(&[1; 200]).1.len(), 127);
    }
}
