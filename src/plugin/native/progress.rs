//! What a plugin says of how far it is, on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shown at most this often.
const EVERY: Duration = Duration::from_millis(200);

/// A line that is written over, and wiped in the end.
#[derive(Default)]
pub struct Progress {
    name: String,
    last: Option<Instant>,
}

impl Progress {
    /// Of a plugin of this name.
    pub fn of(name: &str) -> Self {
        Progress { name: name.to_owned(), last: None }
    }

    /// Shows how much is done, if there is a terminal to show it on and it has not just been shown.
    pub fn show(&mut self, done: u64, total: u64) {
        let now = Instant::now();
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= EVERY);
        let mut to = std::io::stderr();
        if is_due && to.is_terminal() {
            self.last = Some(now);
            // If that fails there is nobody to tell.
            let _ = write!(to, "\r{}\x1b[K", line(&self.name, done, total)).and_then(|()| to.flush());
        }
    }

    /// Wipes the line, if there is one.
    pub fn end(&mut self) {
        if self.last.take().is_some() {
            let mut to = std::io::stderr();
            let _ = write!(to, "\r\x1b[K").and_then(|()| to.flush());
        }
    }
}

fn line(name: &str, done: u64, total: u64) -> String {
    match total {
        0 => format!("plugin {name}: {done}"),
        _ => {
            let percent = u128::from(done.min(total)) * 100 / u128::from(total);
            format!("plugin {name}: {percent} %")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded() {
        assert_eq!(line("x", 1, 3), "plugin x: 33 %");
        assert_eq!(line("x", 9, 3), "plugin x: 100 %");
        assert_eq!(line("x", u64::MAX, u64::MAX), "plugin x: 100 %");
        assert_eq!(line("x", 9, 0), "plugin x: 9");
    }
}
