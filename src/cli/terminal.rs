//! Text from files and arguments, without what could steer a terminal.

/// Whether a character is shown as it is: neither a control character, nor one that turns the direction of what follows or
/// takes no room.
fn is_plain(c: char) -> bool {
    let steers = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !steers
}

/// A name of the recording: whatever is not plain is written as Rust writes it.
pub(super) fn printable(text: &str) -> String {
    escaped(text, is_plain)
}

/// A message, which may have several lines and, in them, names.
pub(super) fn message(text: &str) -> String {
    escaped(text, |c| c == '\n' || is_plain(c))
}

fn escaped(text: &str, is_safe: impl Fn(char) -> bool) -> String {
    if text.chars().all(&is_safe) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let escaped = (!is_safe(c)).then(|| c.escape_default());
            let plain = is_safe(c).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(printable("/bin/true"), "/bin/true");
        assert_eq!(printable("a\x1b[2Jb\n"), r"a\u{1b}[2Jb\n");
        assert_eq!(printable("a\u{202e}b\u{200b}é"), r"a\u{202e}b\u{200b}é");
    }

    #[test]
    fn messages_keep_their_lines() {
        assert_eq!(message("one\n\ttwo\r\x07"), "one\n\\ttwo\\r\\u{7}");
    }
}
