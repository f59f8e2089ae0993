//! Names as their authors wrote them: C++, Rust (both manglings), OCaml, Java.
//!
//! Each language is tried only where its prefix, or for Java its closing parenthesis, is there: most symbols
//! of C programs are told apart by two bytes.

mod java;
mod ocaml;
mod output;

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
    if let Ok(rust) = rustc_demangle::try_demangle(text) {
        return Bounded::format(format_args!("{rust:#}"));
    }
    cxx(name)
}

fn cxx(name: &[u8]) -> Option<String> {
    if !name.starts_with(b"_Z") && !name.starts_with(b"___Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let mut out = Bounded::default();
    let options = cpp_demangle::DemangleOptions::new();
    symbol.structured_demangle(&mut out, &options).ok()?;
    out.finish()
}
