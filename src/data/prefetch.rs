//! A hint to the processor that memory will be read soon.
//!
//! Records of a round are visited by time, some from each CPU's part of it, and the round is larger than the caches: what
//! the hardware foresees ends with each page, and the page of the next record is in no table of translations either.

/// Asks for the cache line of a byte; nothing if there is no such byte, or where the processor has no such hint.
#[inline(always)]
pub fn prefetch(bytes: &[u8], at: usize) {
    let Some(byte) = bytes.get(at) else { return };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching has no effect that a program could see: it faults on no address, and this one is of a
        // byte of a live slice. SSE, which has the instruction, is part of x86-64.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
