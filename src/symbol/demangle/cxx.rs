//! C++, by the Itanium ABI, spelled as libstdc++'s own demangler does, which is what perf prints.
//!
//! The demangler used differs from it in the spelling of a few things, which are put right here: suffixes of
//! cloned functions, literals, function types, empty argument packs.

use super::output::Bounded;
use super::qualifiers::moved_out;

/// The demangled name of one that begins with `_Z`.
pub(super) fn demangle(name: &[u8]) -> Option<String> {
    if !name.starts_with(b"_Z") {
        return None;
    }
    // No mangled name has a dot, so the first one begins the suffixes.
    let dot = name.iter().position(|&b| b == b'.').unwrap_or(name.len());
    let (mangled, suffixes) = name.split_at_checked(dot)?;
    let symbol = cpp_demangle::Symbol::new(mangled).ok()?;
    let mut out = Bounded::default();
    let options = cpp_demangle::DemangleOptions::new();
    symbol.structured_demangle(&mut out, &options).ok()?;
    let mut text = special(moved_out(respell(&out.finish()?)));
    if !suffixes.is_empty() && !text.replace("(anonymous namespace)", "").contains('(') {
        // Only functions are cloned; libstdc++ takes the suffix of data for an error.
        return None;
    }
    clones(std::str::from_utf8(suffixes).ok()?, &mut text)?;
    Some(text)
}

/// Appends ` [clone .SUFFIX]` for each suffix: letters and numbers after them, or numbers alone.
fn clones(mut rest: &str, out: &mut String) -> Option<()> {
    while !rest.is_empty() {
        let body = rest.strip_prefix('.')?;
        let word = body.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(body.len());
        let mut end = 1 + word;
        if word == 0 {
            end += body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
            if end == 1 {
                return None;
            }
        }
        while let Some(digits) = rest.get(end..).and_then(|tail| tail.strip_prefix('.')) {
            let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if len == 0 {
                break;
            }
            end += 1 + len;
        }
        out.push_str(" [clone ");
        out.push_str(rest.get(..end)?);
        out.push(']');
        rest = rest.get(end..)?;
    }
    Some(())
}

/// What names of things that are no functions or variables begin and end with, and how they are put here.
const SPECIAL: [(&str, &str); 6] = [
    ("{vtable(", "vtable for "),
    ("{vtt(", "VTT for "),
    ("{typeinfo(", "typeinfo for "),
    ("{typeinfo name(", "typeinfo name for "),
    ("{virtual override thunk({offset(", "non-virtual thunk to "),
    ("{virtual override thunk({virtual offset(", "virtual thunk to "),
];

/// Tables, type information and thunks, in the words of libstdc++.
fn special(text: String) -> String {
    for (theirs, ours) in SPECIAL {
        let Some(rest) = text.strip_prefix(theirs).and_then(|rest| rest.strip_suffix(")}")) else { continue };
        // A thunk's adjustment is left out.
        let target = match theirs.ends_with("offset(") {
            true => rest.split_once(")}, ").map(|(_, target)| target),
            false => Some(rest),
        };
        if let Some(target) = target {
            return format!("{ours}{target}");
        }
    }
    text
}

/// Casts that libstdc++ spells as suffixes.
const LITERALS: [(&str, &str); 5] = [
    ("(unsigned int)", "u"),
    ("(unsigned long)", "ul"),
    ("(long)", "l"),
    ("(long long)", "ll"),
    ("(unsigned long long)", "ull"),
];

/// What is left of an empty argument pack at the end of a list.
const EMPTY_PACKS: [&str; 4] = [", >", ", )", ", &)", ", &&)"];

fn respell(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut angle = 0usize;
    while let Some(c) = rest.chars().next() {
        match c {
            '(' => {
                if let Some(tail) = literal(rest, &mut out) {
                    rest = tail;
                    continue;
                }
                if angle > 0 && is_function_type(&out, rest) {
                    out.push(' ');
                }
            }
            '_' if rest.starts_with("_GLOBAL__N_")
                && !out.ends_with(|c: char| c.is_alphanumeric() || c == '_') =>
            {
                let tail = rest.trim_start_matches("_GLOBAL__N_");
                rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
                out.push_str("(anonymous namespace)");
                continue;
            }
            '<' if !is_operator(&out) => angle += 1,
            '>' if !is_operator(&out) && !out.ends_with('-') => angle = angle.saturating_sub(1),
            ',' if EMPTY_PACKS.iter().any(|pack| rest.starts_with(pack)) => {
                rest = rest.trim_start_matches([',', ' ', '&']);
                continue;
            }
            _ => {}
        }
        out.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    out
}

/// Writes a literal with a cast; returns what follows it.
fn literal<'a>(rest: &'a str, out: &mut String) -> Option<&'a str> {
    if !out.ends_with(['<', ' ', '(']) {
        return None;
    }
    let (tail, suffix) =
        LITERALS.iter().find_map(|(cast, suffix)| Some((rest.strip_prefix(cast)?, suffix)))?;
    let digits = tail.strip_prefix('-').unwrap_or(tail);
    let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if len == 0 {
        return None;
    }
    let (number, tail) = tail.split_at_checked(tail.len() - digits.len() + len)?;
    out.push_str(number);
    out.push_str(suffix);
    Some(tail)
}

fn is_operator(before: &str) -> bool {
    let bare = before.trim_end_matches(['<', '>', '-', '=']);
    bare.ends_with("operator") && before.len() - bare.len() < 3
}

/// Whether the parenthesis that `rest` begins with opens the arguments of a function type `R (A…)` rather
/// than those of a function: a type is not followed by more of a name.
fn is_function_type(before: &str, rest: &str) -> bool {
    let named = before.ends_with("operator") || before.ends_with("{lambda") || before.ends_with("decltype");
    if named || !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '>' | '&' | '*')) {
        return false;
    }
    let mut depth = 0usize;
    for (i, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            let after = rest.get(i + 1..).unwrap_or_default();
            return !after.starts_with("::") && !after.starts_with(" const::") && !after.starts_with(')');
        }
    }
    false
}

#[cfg(test)]
mod tests {
    /// What libstdc++'s `__cxa_demangle` gives for each.
    #[test]
    fn spelled_as_libstdcxx_does() {
        let cases = [
            (
                "_Z15optimizeSectionN4llvm8ArrayRefINS_11SmallVectorIPNS_13IntrinsicInstELj4EEEEE",
                "optimizeSection(llvm::ArrayRef<llvm::SmallVector<llvm::IntrinsicInst*, 4u> >)",
            ),
            (
                "_Z25runOpWithExpandOnOverflowRKN4llvm5APIntES2_NS_12function_refIFS0_S2_S2_RbEEE",
                "runOpWithExpandOnOverflow(llvm::APInt const&, llvm::APInt const&, llvm::function_ref<llvm::APInt (llvm::APInt const&, llvm::APInt const&, bool&)>)",
            ),
            ("_ZTV10BaseMetric", "vtable for BaseMetric"),
            ("_ZThn104_N13TrcPktProcPtmD0Ev", "non-virtual thunk to TrcPktProcPtm::~TrcPktProcPtm()"),
            ("_ZN12_GLOBAL__N_110AMDGCNGPUsE", "(anonymous namespace)::AMDGCNGPUs"),
            ("_Z4leafi.constprop.0.isra.1", "leaf(int) [clone .constprop.0] [clone .isra.1]"),
            ("_Z4leafi.llvm.14337857210147024854", "leaf(int) [clone .llvm.14337857210147024854]"),
            ("_Z4leafi.part.0.cold", "leaf(int) [clone .part.0] [clone .cold]"),
            (
                "_ZL33updateCGAndAnalysisManagerForPassRN4llvm13LazyCallGraphERNS0_3SCCERNS0_4NodeERNS_15AnalysisManagerIS2_JS1_EEERNS_17CGSCCUpdateResultERNS6_INS_8FunctionEJEEEb.llvm.1",
                "updateCGAndAnalysisManagerForPass(llvm::LazyCallGraph&, llvm::LazyCallGraph::SCC&, llvm::LazyCallGraph::Node&, llvm::AnalysisManager<llvm::LazyCallGraph::SCC, llvm::LazyCallGraph&>&, llvm::CGSCCUpdateResult&, llvm::AnalysisManager<llvm::Function>&, bool) [clone .llvm.1]",
            ),
            (
                "_ZN4llvm15InstCombinePass3runERNS_8FunctionERNS_15AnalysisManagerIS1_JEEE",
                "llvm::InstCombinePass::run(llvm::Function&, llvm::AnalysisManager<llvm::Function>&)",
            ),
        ];
        for (name, want) in cases {
            assert_eq!(super::demangle(name.as_bytes()).as_deref(), Some(want));
        }
        assert_eq!(super::demangle(b"_ZN12_GLOBAL__N_111IfConverter2IDE.llvm.122"), None);
    }
}
