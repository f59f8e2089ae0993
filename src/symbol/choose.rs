//! Which of several symbols at one address is the one to show, and where symbols of unknown size end.
//!
//! perf's rules, in order: a symbol with a size; one that is not weak; a global one; the name with fewer
//! leading underscores; the longer name; the one met first, unless it is a kernel `SyS`/`compat_SyS` alias.
//! The first three need no name, so the lazy index applies them without reading any.

use super::sym::SymbolBinding;

/// Page size in the end fix-up, whatever the machine's.
const PAGE: u64 = 4096;

/// The rules that need no name, as one number: the larger wins, equal ones go on to [`second_is_better`].
pub fn rank(has_size: bool, binding: SymbolBinding) -> u8 {
    u8::from(has_size) << 2
        | u8::from(binding != SymbolBinding::WEAK) << 1
        | u8::from(binding == SymbolBinding::GLOBAL)
}

/// The rules on names (demangled, as shown), for symbols of equal [`rank`]: whether the one met later wins.
pub fn second_is_better(first: &[u8], second: &[u8]) -> bool {
    let underscores = |name: &[u8]| name.iter().take_while(|&&b| b == b'_').count();
    let (a, b) = (underscores(first), underscores(second));
    if a != b {
        return b < a;
    }
    if first.len() != second.len() {
        return second.len() > first.len();
    }
    first.starts_with(b"SyS") || first.starts_with(b"compat_SyS")
}

/// End of the last symbol, if it has no size: the page after the one its start rounds up to.
pub fn last_end(start: u64) -> u64 {
    round_up(start).saturating_add(PAGE)
}

/// End of a kallsyms symbol without a size, from the next one in address order: the next one's start, unless
/// they belong to different modules, between which there is a gap that nobody owns.
pub fn kallsyms_end(start: u64, same_module: bool, next_start: u64) -> u64 {
    if same_module { next_start } else { round_up(start.saturating_add(PAGE)) }
}

fn round_up(addr: u64) -> u64 {
    addr.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_outrank_names() {
        let sized_weak = rank(true, SymbolBinding::WEAK);
        let unsized_global = rank(false, SymbolBinding::GLOBAL);
        assert!(sized_weak > unsized_global);
        assert!(rank(true, SymbolBinding::LOCAL) > sized_weak);
        assert!(rank(true, SymbolBinding::GLOBAL) > rank(true, SymbolBinding::LOCAL));
        assert!(rank(true, SymbolBinding::GLOBAL) > rank(true, SymbolBinding::UNIQUE));
    }

    #[test]
    fn names_are_told_apart_by_underscores_then_length_then_order() {
        assert!(second_is_better(b"__memcpy_long", b"_memcpy"));
        assert!(!second_is_better(b"read", b"__libc_read"));
        assert!(second_is_better(b"read", b"reader"));
        assert!(!second_is_better(b"abcd", b"efgh"));
        assert!(second_is_better(b"SyS_read", b"sys_read"));
        assert!(second_is_better(b"compat_SyS_read", b"compat_sys_read"));
    }

    #[test]
    fn ends_of_unsized_symbols() {
        assert_eq!(last_end(0x1001), 0x3000);
        assert_eq!(last_end(0x1000), 0x2000);
        assert_eq!(last_end(u64::MAX), u64::MAX);
        assert_eq!(kallsyms_end(0x1010, true, 0x9000), 0x9000);
        assert_eq!(kallsyms_end(0x1010, false, 0x9000), 0x3000);
    }
}
