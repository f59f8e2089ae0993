//! Qualifiers that the demangler used puts too far in.
//!
//! Of a pointer, reference or qualified type whose name begins with a substitution, such as `RNS0_3SCCE`, it writes the
//! qualifier behind what the substitution stands for: `A&::SCC` instead of `A::SCC&`. No name has one there, so each
//! goes to the end of the name that it is in.

const QUALIFIERS: [&str; 5] = [" const", " volatile", " restrict", "&", "*"];

/// The same with each qualifier at the end of its name.
pub(super) fn moved_out(mut text: String) -> String {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("::")).map(|at| from + at) {
        let before = text.get(..at).unwrap_or_default();
        let start = before.len() - trailing(before).len();
        let name = before.get(..start).unwrap_or_default().trim_end();
        // `operator&` and `operator*` are names of their own, and what is in a method may be `A::f() const::x`.
        if start == at || name.is_empty() || name.ends_with("operator") || name.ends_with(')') {
            from = at + 2;
            continue;
        }
        let end = at + name_len(text.get(at..).unwrap_or_default());
        let (Some(name), Some(qualifiers)) = (text.get(at..end), text.get(start..at)) else { return text };
        let moved = format!("{name}{qualifiers}");
        text.replace_range(start..end, &moved);
        from = start + 2;
    }
    text
}

/// The qualifiers that a text ends with.
fn trailing(text: &str) -> &str {
    let mut bare = text;
    while let Some(less) = QUALIFIERS.iter().find_map(|&q| bare.strip_suffix(q)) {
        bare = less;
    }
    text.get(bare.len()..).unwrap_or_default()
}

/// How long the rest of a name is, which begins with `::`.
fn name_len(rest: &str) -> usize {
    const ANONYMOUS: &str = "(anonymous namespace)";
    let mut depth = 0usize;
    let mut skip = 0;
    for (i, c) in rest.char_indices() {
        if i < skip {
            continue;
        }
        match c {
            '(' if depth == 0 && rest.get(i..).is_some_and(|rest| rest.starts_with(ANONYMOUS)) => {
                skip = i + ANONYMOUS.len();
            }
            // A lambda has its parameters in its name.
            '<' | '{' | '[' => depth += 1,
            '(' if depth > 0 => depth += 1,
            '>' if rest.get(..i).is_some_and(|before| before.ends_with('-')) => {}
            '>' | '}' | ']' | ')' if depth > 0 => depth -= 1,
            ',' | '(' | ')' | '>' | ']' | '}' | ' ' | '&' | '*' if depth == 0 => return i,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::moved_out;

    #[test]
    fn qualifiers_stand_behind_their_names() {
        for (text, want) in [
            ("f(A&, A&::B, A&::C)", "f(A&, A::B&, A::C&)"),
            ("f(A const::B&, n::A*::B<A&, 1>::C)", "f(A::B const&, n::A::B<A&, 1>::C*)"),
            ("g<A&::B>::h(A*::(anonymous namespace)::D&)", "g<A::B&>::h(A::(anonymous namespace)::D*&)"),
            ("f(A const&::{lambda(int)#1})", "f(A::{lambda(int)#1} const&)"),
            ("f(int A::*, A<B&>::C&)", "f(int A::*, A<B&>::C&)"),
            ("A::operator&(B const&)::C", "A::operator&(B const&)::C"),
            ("A::operator*<int>::C(int&)", "A::operator*<int>::C(int&)"),
            ("A::f(int) const::{lambda()#1}", "A::f(int) const::{lambda()#1}"),
            ("A::f() &::g", "A::f() &::g"),
            ("&::", "&::"),
            ("::a", "::a"),
        ] {
            assert_eq!(moved_out(text.to_owned()), want);
        }
    }
}
