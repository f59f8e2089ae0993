//! Text that may not grow without bound: substitutions let a short mangled name stand for an endless one.

use std::fmt::{self, Write};

/// Longest demangled name; beyond it the mangled one is shown.
const MAX: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Bounded {
    text: String,
}

impl Bounded {
    pub(super) fn format(args: fmt::Arguments<'_>) -> Option<String> {
        let mut out = Bounded::default();
        out.write_fmt(args).ok()?;
        out.finish()
    }

    pub(super) fn finish(self) -> Option<String> {
        (!self.text.is_empty()).then_some(self.text)
    }
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > MAX {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}
