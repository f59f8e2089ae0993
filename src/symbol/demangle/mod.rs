//! Names as their authors wrote them: C++, Rust (both manglings), OCaml, Java.
//!
//! Each language is tried only where its prefix, or for Java its closing parenthesis, is there: most symbols
//! of C programs are told apart by two bytes.

mod cxx;
mod java;
mod ocaml;
mod output;
mod qualifiers;

use output::Bounded;

/// Whether names are demangled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Demangle {
    /// As perf shows them by default.
    #[default]
    Yes,
    /// As the symbol table has them.
    No,
}

/// The name to show if it is a mangled one, `None` if it is to be shown as it is.
pub fn demangle(name: &[u8], how: Demangle) -> Option<String> {
    if how == Demangle::No {
        return None;
    }
    match name {
        [b'_', b'Z' | b'R', ..] | [b'_', b'_', b'Z' | b'R', ..] | [b'_', b'_', b'_', b'Z', ..] => {
            mangled(name)
        }
        [b'c', b'a', b'm', b'l', b'A'..=b'Z', ..] => ocaml::demangle(name),
        _ if name.contains(&b')') => java::demangle(name),
        _ => None,
    }
}

/// Rust first, since its older mangling is also valid C++.
fn mangled(name: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(name).ok()?;
    if (!text.contains("_ZN") || has_rust_hash(name))
        && let Ok(rust) = rustc_demangle::try_demangle(text)
    {
        return Bounded::format(format_args!("{rust:#}"));
    }
    cxx::demangle(name)
}

/// Whether a name ends, but for suffixes, as the older Rust mangling does: in a hash. Without one it is C++.
fn has_rust_hash(name: &[u8]) -> bool {
    // Points are not in suffixes alone: the older mangling writes `::` within types as two of them.
    let is_hash = |at: usize| {
        let hash = name.get(at..at + 20).and_then(|hash| hash.strip_prefix(b"17h")?.strip_suffix(b"E"));
        hash.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
            && matches!(name.get(at + 20), None | Some(b'.'))
    };
    (0..name.len().saturating_sub(19)).rev().any(is_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_by_its_prefix() {
        let cases = [
            ("main", None),
            ("_Z4leafi", Some("leaf(int)")),
            ("_ZNK2ns3FooIlEcvbEv", Some("ns::Foo<long>::operator bool() const")),
            ("_ZN1r4main17h4d61d863015b0077E", Some("r::main")),
            ("_ZN1r4main28_$u7b$$u7b$closure$u7d$$u7d$17h4d61d863015b0077E", Some("r::main::{{closure}}")),
            ("_ZN1r4main17h4d61d863015b0077E.llvm.123", Some("r::main")),
            ("_ZN30_$LT$t..P$u20$as$u20$t..Op$GT$2go17h31e0fbcf7eb43e76E", Some("<t::P as t::Op>::go")),
            ("_RNvCs6GmmlP4bgsG_1r4main", Some("r::main")),
            ("_RINvCs6GmmlP4bgsG_1r4closNCNvB2_4main0EB2_", Some("r::clos::<r::main::{closure#0}>")),
            ("camlStdlib__List__map_1", Some("Stdlib.List.map_1")),
            ("Ljava/lang/Object;wait(J)V", Some("java.lang.Object.wait(long)")),
            ("_Znotmangled", None),
            ("_R", None),
        ];
        for (name, want) in cases {
            assert_eq!(demangle(name.as_bytes(), Demangle::Yes).as_deref(), want, "{name}");
            assert_eq!(demangle(name.as_bytes(), Demangle::No), None);
        }
    }
}
