//! What a signal handler returns to, on x86-64: a few instructions of the C library that ask the kernel to go on where the
//! signal came, with the registers that it saved on the stack.

/// `mov $15, %rax; syscall`: the system call `rt_sigreturn`.
pub(super) const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Offsets in `struct ucontext` (`asm/ucontext.h`, `asm/sigcontext.h`), at which the stack pointer is then.
const RBP: u64 = 120;
const RSP: u64 = 160;
const RIP: u64 = 168;

/// Instruction, stack and frame pointer that the kernel saved where the stack pointer of the returning code points.
pub(super) fn saved(word: impl Fn(u64) -> Option<u64>, sp: u64) -> Option<[u64; 3]> {
    let at = |offset: u64| word(sp.checked_add(offset)?);
    Some([at(RIP)?, at(RSP)?, at(RBP)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_before_the_signal() {
        let word = |addr: u64| (0x1000..0x10b0).contains(&addr).then_some(addr + 1);
        assert_eq!(saved(word, 0x1000), Some([0x10a9, 0x10a1, 0x1079]));
        assert_eq!(saved(word, 0x1008), None);
        assert_eq!(saved(word, u64::MAX), None);
    }
}
