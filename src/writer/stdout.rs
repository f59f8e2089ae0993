//! Standard output while code of others runs: what that prints must not get among the records.

use std::fs::OpenOptions;
use std::os::fd::AsFd;

use rustix::fs::{Stat, fstat};
use rustix::stdio::{dup2_stdout, stderr, stdout};

use super::Target;
use crate::error::{Error, Result};

fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

impl Target {
    /// If this is where standard output goes, what is printed there from now on goes to standard error instead, and
    /// nowhere if that is the same or closed. This is so until the process ends: what has been printed may wait in a
    /// buffer until then.
    pub fn keep_prints_out(&self) -> Result<()> {
        let error = |e: std::io::Error| Error::io(e, "cannot turn away what plugins print from", "<stdout>");
        let own = fstat(self.file()).map_err(|e| error(e.into()))?;
        if !fstat(stdout()).is_ok_and(|stat| is_same(&stat, &own)) {
            return Ok(());
        }
        let turned = if fstat(stderr()).is_ok_and(|stat| !is_same(&stat, &own)) {
            dup2_stdout(stderr())
        } else {
            let nowhere = OpenOptions::new().write(true).open("/dev/null").map_err(error)?;
            dup2_stdout(nowhere.as_fd())
        };
        turned.map_err(|e| error(e.into()))
    }
}
