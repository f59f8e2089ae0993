//! Files that a plugin writes and has not completed, which a signal that ends the run removes.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::functions::ctx;
use super::host::Phase;
use crate::data::unfinished;

/// Files that a plugin may have at a time.
const MOST: usize = 64;

/// Those of one plugin; forgotten with it.
#[derive(Default)]
pub(super) struct Unfinished(Vec<PathBuf>);

impl Unfinished {
    fn add(&mut self, path: &Path) -> bool {
        let has_room = self.0.len() < MOST;
        if has_room {
            unfinished::add(path);
            self.0.push(path.to_path_buf());
        }
        has_room
    }

    fn forget(&mut self, path: &Path) {
        unfinished::forget(path);
        self.0.retain(|own| own != path);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| unfinished::forget(path));
    }
}

/// `unfinished` of the table.
pub(super) unsafe extern "C" fn function(host: *mut c_void, path: *const c_char, is: u32) -> i32 {
    // SAFETY: called by a plugin with its `ctx`.
    let Some(host) = (unsafe { ctx(host) }).filter(|host| host.phase != Phase::Idle && !path.is_null())
    else {
        return -1;
    };
    // SAFETY: not null; the plugin says that it ends in a NUL.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    if is == 0 {
        host.unfinished.forget(path);
        return 0;
    }
    if host.unfinished.add(path) { 0 } else { -1 }
}
