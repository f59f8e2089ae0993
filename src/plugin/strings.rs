//! C strings that stay where they are for as long as a plugin may look at them.

use std::ffi::{CString, c_char};

use rustc_hash::FxHashMap;

/// Each text once, with a NUL behind it.
#[derive(Default)]
pub(crate) struct Strings(FxHashMap<Box<[u8]>, CString>);

impl Strings {
    /// A pointer to the text, up to its first NUL; valid while `self` lives.
    pub fn pointer(&mut self, text: &[u8]) -> *const c_char {
        if let Some(known) = self.0.get(text) {
            return known.as_ptr();
        }
        let c = CString::new(crate::bytes::until_nul(text)).unwrap_or_default();
        // The bytes are on the heap and do not move with the map.
        self.0.entry(text.into()).or_insert(c).as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_place() {
        let mut strings = Strings::default();
        let first = strings.pointer(b"main");
        for n in 0..1000 {
            strings.pointer(format!("f{n}").as_bytes());
        }
        assert_eq!(strings.pointer(b"main"), first);
        assert_ne!(strings.pointer(b"main2"), first);
    }
}
