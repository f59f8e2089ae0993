//! Where batches go: to the printer's thread, or printed at once, between the lines that a dlfilter prints.

use std::io::{self, Write};

use super::batch::{Batch, Texts};
use super::output::{Output, Printer};
use crate::error::{Error, Result};
use crate::plugin::stdio::Stdout;

/// Takes batches in order.
pub(super) enum Outlet {
    Thread(Output),
    Direct(Box<Direct>),
}

/// Prints through C's standard output, which a dlfilter prints to as well, so that the lines of both come in order.
pub(super) struct Direct {
    printer: Printer,
    texts: Texts,
    text: Vec<u8>,
    to: Stdout,
    used: Batch,
    failed: Option<io::Error>,
}

impl Outlet {
    pub fn new(printer: Printer, direct: bool) -> Result<Outlet> {
        if !direct {
            return Output::spawn(printer, io::stdout()).map(Outlet::Thread);
        }
        Ok(Outlet::Direct(Box::new(Direct {
            printer,
            texts: Texts::default(),
            text: Vec::new(),
            to: Stdout::new(),
            used: Batch::default(),
            failed: None,
        })))
    }

    /// An empty batch.
    pub fn batch(&mut self) -> Batch {
        match self {
            Outlet::Thread(output) => output.batch(),
            Outlet::Direct(direct) => std::mem::take(&mut direct.used),
        }
    }

    /// Hands a batch over. False once printing has failed; [`Outlet::finish`] says why.
    pub fn send(&mut self, batch: Batch) -> bool {
        match self {
            Outlet::Thread(output) => output.send(batch),
            Outlet::Direct(direct) => direct.print(batch),
        }
    }

    /// Waits until all is written. That nobody reads any more is no failure.
    pub fn finish(self) -> Result<()> {
        let mut direct = match self {
            Outlet::Thread(output) => return output.finish(),
            Outlet::Direct(direct) => direct,
        };
        match direct.failed.map_or_else(|| direct.to.flush(), Err) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::io(e, "cannot write", "<stdout>")),
            _ => Ok(()),
        }
    }
}

impl Direct {
    fn print(&mut self, mut batch: Batch) -> bool {
        self.texts.learn(&batch);
        for view in batch.views(&self.texts) {
            self.printer.print(&view, &mut self.text);
        }
        batch.clear();
        self.used = batch;
        let written = self.to.write_all(&self.text);
        self.text.clear();
        self.failed = written.err();
        self.failed.is_none()
    }
}
