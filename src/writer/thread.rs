//! The thread that writes, so that processing on one core overlaps copying on the other.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::file::Patch;
use super::{Sink, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::Block;

/// Small pieces are gathered up to this many bytes before they are written.
const BUFFER: usize = 256 << 10;
/// Kept runs of at least this many bytes leave straight from the input.
const DIRECT: usize = 64 << 10;
/// Most bytes in one write; larger ones are slower, not faster.
const WRITE_MAX: usize = 1 << 20;
/// Pieces that may wait for the thread.
const AHEAD: usize = 8;

enum Piece {
    Bytes(Vec<u8>),
    Kept(Arc<Block>, Range<usize>),
}

/// An output being written.
pub struct Output {
    send: Option<Sender<Piece>>,
    spare: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<Result<Target>>>,
    buffer: Vec<u8>,
    written: u64,
    stream: bool,
    name: PathBuf,
}

impl Output {
    /// Starts the writing thread; an error if it can't be started.
    pub fn new(target: Target) -> Result<Output> {
        let (send, receive) = bounded::<Piece>(AHEAD);
        let (give_back, spare) = bounded(AHEAD);
        let stream = target.is_stream();
        let name = target.name().to_path_buf();
        let write = move || {
            let mut written = Written::default();
            for piece in receive {
                match piece {
                    Piece::Bytes(mut bytes) => {
                        write_all(&target, &bytes)?;
                        bytes.clear();
                        // A full channel just lets the buffer go.
                        let _ = give_back.try_send(bytes);
                    }
                    Piece::Kept(block, range) => {
                        write_all(&target, block.get(range.clone()).unwrap_or_default())?;
                        written.add(block, range);
                    }
                }
            }
            Ok(target)
        };
        let thread = std::thread::Builder::new().name("writer".into()).spawn(write).map_err(|e| {
            Error::new(ErrorKind::Io, "cannot start a thread to write").in_file(&name).because(e)
        })?;
        let buffer = Vec::with_capacity(BUFFER);
        Ok(Output { send: Some(send), spare, thread: Some(thread), buffer, written: 0, stream, name })
    }

    /// Whether the output can only be written in sequence.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// Bytes taken so far, which is the offset of the next.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Sends what is gathered.
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let next = self.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER));
        let full = std::mem::replace(&mut self.buffer, next);
        self.send(Piece::Bytes(full))
    }

    fn send(&mut self, piece: Piece) -> Result<()> {
        match self.send.as_ref().map(|send| send.send(piece)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.join().err().unwrap_or_else(|| Target::lost(&self.name))),
        }
    }

    fn join(&mut self) -> Result<Target> {
        self.send = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(Target::lost(&self.name)),
        }
    }

    /// Writes everything out, applies the patches to a file, and makes it visible.
    pub fn commit(mut self, patches: &[Patch]) -> Result<()> {
        self.flush()?;
        let target = self.join()?;
        for patch in patches {
            target.patch(patch.offset, &patch.bytes)?;
        }
        target.commit()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Waits for the thread, so that a dropped output has removed its temporary file when this returns.
        let _ = self.join();
    }
}

impl Sink for Output {
    fn front(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes(bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(BUFFER) {
            if self.buffer.len() + piece.len() > BUFFER {
                self.flush()?;
            }
            self.buffer.extend_from_slice(piece);
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn kept(&mut self, block: &Arc<Block>, range: Range<usize>) -> Result<()> {
        if range.len() < DIRECT {
            return self.bytes(block.get(range).unwrap_or_default());
        }
        self.flush()?;
        self.written += range.len() as u64;
        self.send(Piece::Kept(block.clone(), range))
    }

    fn settle(&mut self) -> Result<u64> {
        Ok(self.written)
    }
}

/// Writes straight from where the bytes are. For a mapped input that is its page cache, which `write` copies faster
/// than `copy_file_range` does where the file system can't share blocks (0.8 against 1.25 of `cp` on ext4).
fn write_all(target: &Target, bytes: &[u8]) -> Result<()> {
    for part in bytes.chunks(WRITE_MAX) {
        target.file().write_all(part).map_err(|e| target.error(e))?;
    }
    Ok(())
}

/// Pages of the input that are written, let go of many at a time: each time costs an interrupt on every core.
#[derive(Default)]
struct Written {
    range: Option<(Arc<Block>, Range<usize>)>,
}

/// Bytes let go of at a time.
const RELEASE: usize = 32 << 20;

impl Written {
    /// Adds a range that nobody reads any more; ranges of a block come in order.
    fn add(&mut self, block: Arc<Block>, range: Range<usize>) {
        let start = match self.range.take() {
            Some((last, before)) if Arc::ptr_eq(&last, &block) => before.start,
            _ => range.start,
        };
        if range.end - start >= RELEASE {
            block.release(start..range.end);
            self.range = Some((block, range.end..range.end));
        } else {
            self.range = Some((block, start..range.end));
        }
    }
}
