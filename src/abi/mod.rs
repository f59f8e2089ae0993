//! Constants and layouts of the kernel's `perf_event.h` and of perf's file format; no I/O.
//!
//! Wire constants are open newtypes: a value that is not known displays as its number and passes through.

pub mod attr;
pub mod build_id;
pub mod feature;
pub mod misc;
pub mod record;
pub mod sample;

/// Declares an open newtype over an integer with named constants and a display of the name.
macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident($repr:ty) { $($(#[$vdoc:meta])* $variant:ident = $value:expr),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$vdoc])* pub const $variant: $name = $name($value);)+

            /// The field's name for the value, if it is a known one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(x if x == $value => Some(stringify!($variant)),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => f.pad(&format!("{}", self.0)),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use open_enum;
