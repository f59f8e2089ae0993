//! Ends of symbols without a size, and duplicates, on a whole table with its names.

use super::SymbolTable;
use crate::bytes::until_nul;
use crate::symbol::choose::{kallsyms_end, last_end, rank, second_is_better};
use crate::symbol::memory::OutOfMemory;
use crate::symbol::sym::{Symbol, SymbolType};

/// How the end of a symbol without a size is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRule {
    /// The next symbol's start.
    NextStart,
    /// The next symbol's start, unless it is another module's.
    Kallsyms,
}

impl SymbolTable {
    /// Gives symbols without a size an end. Of aliases in one ELF table, it is the last that gets one.
    pub fn fixup_end(&mut self, rule: EndRule) {
        // The next symbol, and the first of the next higher start, with where its name tells the module.
        let (mut next, mut above): (Option<Symbol>, Option<(Symbol, Option<usize>)>) = (None, None);
        let (mut module_of_next, kallsyms) = (None, rule == EndRule::Kallsyms);
        for i in (0..self.symbols.len()).rev() {
            let Some(&symbol) = self.symbols.get(i) else { break };
            if let Some(n) = next.filter(|n| n.start > symbol.start) {
                above = Some((n, module_of_next));
            }
            let module = if kallsyms { self.module_at(&symbol) } else { None };
            let has_later_alias = next.is_some_and(|n| n.start == symbol.start && n.origin == symbol.origin);
            if symbol.end == symbol.start && !has_later_alias {
                let end = match (above, rule) {
                    (None, _) => last_end(symbol.start),
                    (Some((above, _)), EndRule::NextStart) => above.start,
                    (Some((above, of_above)), EndRule::Kallsyms) => {
                        let part = |at: Option<usize>| Some(until_nul(self.names.get(at?..)?));
                        let same = module.is_none() && of_above.is_none() || part(module) == part(of_above);
                        kallsyms_end(symbol.start, same, above.start)
                    }
                };
                if let Some(s) = self.symbols.get_mut(i) {
                    s.end = end;
                }
            }
            (next, module_of_next) = (Some(symbol), module);
        }
    }

    /// Where among the names that of a symbol of kallsyms has its `[module]`.
    fn module_at(&self, symbol: &Symbol) -> Option<usize> {
        let from = symbol.name as usize;
        let rest = self.names.get(from..)?;
        let at = memchr::memchr2(b'[', 0, rest)?;
        (rest.get(at) == Some(&b'[')).then_some(from + at)
    }

    /// Keeps the best symbol of each start. Names of those that lose stay in memory until the table goes.
    pub fn fixup_duplicate(&mut self) -> Result<(), OutOfMemory> {
        let mut kept = 0usize;
        for i in 0..self.symbols.len() {
            let Some(&symbol) = self.symbols.get(i) else { break };
            let previous = kept.checked_sub(1).and_then(|k| self.symbols.get(k)).copied();
            match previous.filter(|p| p.start == symbol.start) {
                Some(best) => {
                    let (winner, loser) =
                        if self.beats(&best, &symbol) { (symbol, best) } else { (best, symbol) };
                    let is_ifunc = winner.kind == SymbolType::GNU_IFUNC
                        || loser.kind == SymbolType::GNU_IFUNC
                        || winner == best && self.ifuncs.contains(&best.start);
                    if is_ifunc {
                        self.ifuncs.insert(winner.start);
                    } else {
                        self.ifuncs.remove(&winner.start);
                    }
                    if let Some(slot) = self.symbols.get_mut(kept - 1) {
                        *slot = winner;
                    }
                }
                None => {
                    if symbol.kind == SymbolType::GNU_IFUNC {
                        self.ifuncs.insert(symbol.start);
                    }
                    if let Some(slot) = self.symbols.get_mut(kept) {
                        *slot = symbol;
                    }
                    kept += 1;
                }
            }
        }
        self.symbols.truncate(kept);
        self.forget_names();
        self.renest()
    }

    /// Whether the one met later wins.
    fn beats(&self, first: &Symbol, second: &Symbol) -> bool {
        let rank_of = |s: &Symbol| rank(s.end > s.start, s.binding);
        let (a, b) = (rank_of(first), rank_of(second));
        b > a || b == a && second_is_better(self.name(first), self.name(second))
    }

    /// The symbol that starts at the address, if it is an IFUNC or has won over one. While loading.
    pub(in crate::symbol) fn ifunc_at(&self, addr: u64) -> Option<&Symbol> {
        self.find(addr).filter(|s| s.start == addr && self.ifuncs.contains(&addr))
    }

    /// Ends the symbol that covers an address there, if it starts before.
    pub(in crate::symbol) fn clip(&mut self, addr: u64) -> Result<(), OutOfMemory> {
        let mut at = self.symbols.partition_point(|s| s.start <= addr);
        while let Some(i) = at.checked_sub(1) {
            at = i;
            let Some(symbol) = self.symbols.get_mut(i) else { break };
            if symbol.contains(addr) {
                if symbol.start < addr {
                    symbol.end = addr;
                }
                break;
            }
        }
        self.renest()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::symbol::sym::SymbolBinding;

    fn loaded(symbols: &[(u64, u64, SymbolBinding, &str)], rule: EndRule) -> Vec<(u64, u64, String)> {
        let mut t = SymbolTable::new();
        for &(start, end, binding, name) in symbols {
            t.push(start, end, binding, SymbolType::FUNC, name.as_bytes()).unwrap();
        }
        t.sort().unwrap();
        t.fixup_end(rule);
        t.fixup_duplicate().unwrap();
        t.iter().map(|s| (s.start, s.end, String::from_utf8(t.name(s).to_vec()).unwrap())).collect()
    }

    #[test]
    fn the_last_alias_without_a_size_wins() {
        let g = SymbolBinding::GLOBAL;
        let got = loaded(
            &[(0x10, 0x10, g, "longer_name"), (0x10, 0x10, g, "last"), (0x30, 0x30, g, "z")],
            EndRule::Kallsyms,
        );
        assert_eq!(got, [(0x10, 0x30, "last".into()), (0x30, 0x2000, "z".into())]);
    }

    #[test]
    fn a_module_does_not_own_the_gap_after_it() {
        let g = SymbolBinding::GLOBAL;
        let got = loaded(
            &[
                (0x10, 0x10, g, "k"),
                (0x800, 0x800, g, "l"),
                (0x1010, 0x1010, g, "a\t[m]"),
                (0x9000, 0x9000, g, "b\t[m]"),
                (0xf000, 0xf000, g, "c\t[n]"),
            ],
            EndRule::Kallsyms,
        );
        assert_eq!(
            got,
            [
                (0x10, 0x800, "k".into()),
                (0x800, 0x2000, "l".into()),
                (0x1010, 0x9000, "a\t[m]".into()),
                (0x9000, 0xa000, "b\t[m]".into()),
                (0xf000, 0x10000, "c\t[n]".into())
            ]
        );
    }

    #[test]
    fn duplicates_by_binding_then_name() {
        let (g, w, l) = (SymbolBinding::GLOBAL, SymbolBinding::WEAK, SymbolBinding::LOCAL);
        let got = loaded(
            &[(1, 2, w, "weak_and_long"), (1, 2, l, "local_long"), (1, 2, g, "__glob"), (1, 2, g, "glob")],
            EndRule::NextStart,
        );
        assert_eq!(got, [(1, 2, "glob".into())]);
    }
}
