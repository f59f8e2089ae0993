//! The printer's thread: takes batches in order, writes them out in large pieces.

use std::io::{self, Write};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::batch::{Batch, Texts, View};
use super::json::JsonPrinter;
use super::text::TextPrinter;
use crate::error::{Error, ErrorKind, Result};

/// Bytes written at once.
const PIECE: usize = 64 << 10;
/// Batches on their way.
const QUEUE: usize = 3;

/// How samples are printed.
pub(super) enum Printer {
    Text(TextPrinter),
    Json(JsonPrinter),
}

impl Printer {
    pub fn print(&self, view: &View<'_>, out: &mut Vec<u8>) {
        match self {
            Printer::Text(printer) => printer.print(view, out),
            Printer::Json(printer) => printer.print(view, out),
        }
    }
}

/// The printer on a thread of its own.
pub(super) struct Output {
    batches: Sender<Batch>,
    used: Receiver<Batch>,
    thread: JoinHandle<io::Result<()>>,
    made: usize,
}

impl Output {
    /// Begins to print to `to`.
    pub fn spawn(printer: Printer, to: impl Write + Send + 'static) -> Result<Output> {
        let (batches, next) = bounded(QUEUE);
        let (give_back, used) = bounded(QUEUE + 2);
        let thread = std::thread::Builder::new()
            .name("printer".into())
            .spawn(move || run(&printer, &next, &give_back, to))
            .map_err(|e| Error::new(ErrorKind::Io, "cannot start a thread to print").because(e))?;
        Ok(Output { batches, used, thread, made: 0 })
    }

    /// An empty batch.
    pub fn batch(&mut self) -> Batch {
        match self.used.try_recv() {
            Ok(batch) => batch,
            Err(_) if self.made < QUEUE + 2 => {
                self.made += 1;
                Batch::default()
            }
            // An error means that the printer ended; the next batch that is sent brings that to light.
            Err(_) => self.used.recv().unwrap_or_default(),
        }
    }

    /// Hands a batch over. False once printing has failed; [`Output::finish`] says why.
    pub fn send(&self, batch: Batch) -> bool {
        self.batches.send(batch).is_ok()
    }

    /// Waits until all is written. That nobody reads any more is no failure.
    pub fn finish(self) -> Result<()> {
        drop(self.batches);
        drop(self.used);
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Ok(Err(e)) => Err(Error::io(e, "cannot write", "<stdout>")),
            Err(_) => Err(Error::new(ErrorKind::Io, "the printing thread failed")),
        }
    }
}

fn run(
    printer: &Printer,
    batches: &Receiver<Batch>,
    give_back: &Sender<Batch>,
    mut to: impl Write,
) -> io::Result<()> {
    let mut texts = Texts::default();
    let mut out = Vec::with_capacity(PIECE + PIECE / 4);
    for mut batch in batches {
        texts.learn(&batch);
        for view in batch.views(&texts) {
            printer.print(&view, &mut out);
            if out.len() >= PIECE {
                to.write_all(&out)?;
                out.clear();
            }
        }
        batch.clear();
        // Nobody takes it back any more once the last batch is on its way.
        let _ = give_back.try_send(batch);
    }
    to.write_all(&out)?;
    to.flush()
}
