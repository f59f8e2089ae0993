//! Unwinding of sampled stacks, one unwinder and cache per address space.
