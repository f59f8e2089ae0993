//! OCaml: `caml` and a capital; `__` stands for a dot, `$xx` for the byte of that hexadecimal value.

/// The demangled name of one that begins as OCaml's do.
pub(super) fn demangle(name: &[u8]) -> Option<String> {
    let mut rest = name.strip_prefix(b"caml")?;
    let mut out = Vec::with_capacity(rest.len());
    loop {
        rest = match rest {
            [] => break,
            [b'_', b'_', tail @ ..] => {
                out.push(b'.');
                tail
            }
            [b'$', hi, lo, tail @ ..] if hi.is_ascii_hexdigit() && lo.is_ascii_hexdigit() => {
                out.push(digit(*hi) << 4 | digit(*lo));
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        };
    }
    String::from_utf8(out).ok()
}

fn digit(hex: u8) -> u8 {
    char::from(hex).to_digit(16).and_then(|d| u8::try_from(d).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn dots_and_hex() {
        assert_eq!(super::demangle(b"camlStdlib__List__map_123").as_deref(), Some("Stdlib.List.map_123"));
        assert_eq!(super::demangle(b"camlFoo__$3e$3e$3d_1").as_deref(), Some("Foo.>>=_1"));
    }
}
