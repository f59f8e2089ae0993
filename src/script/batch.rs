//! What is handed from resolving to printing: samples as numbers, and each text once.

use super::fields::{EXTRAS, Fields};

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Address as shown.
    pub ip: u64,
    /// Bytes from the symbol's start.
    pub offset: u64,
    /// Symbol: 0 is none, others index [`Texts::symbols`] from 1.
    pub symbol: u32,
    /// DSO: 0 is none, others index [`Texts::dsos`] from 1; and [`Frame::INLINED`].
    dso: u32,
}

impl Frame {
    const INLINED: u32 = 1 << 31;

    pub fn new(ip: u64) -> Frame {
        Frame { ip, offset: 0, symbol: 0, dso: 0 }
    }

    pub fn dso(&self) -> u32 {
        self.dso & !Frame::INLINED
    }

    pub fn set_dso(&mut self, number: u32) {
        self.dso = number & !Frame::INLINED;
    }

    /// Whether it is no frame on the stack, but of a function that was inlined into the one of the next frame.
    pub fn is_inlined(&self) -> bool {
        self.dso & Frame::INLINED != 0
    }

    /// The same place in a function that was inlined there.
    pub fn inlined(&self, symbol: u32) -> Frame {
        Frame { symbol, dso: self.dso | Frame::INLINED, ..*self }
    }
}

/// A sample; what a field that its event does not have holds is not looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Index of the event.
    pub event: u32,
    pub pid: i32,
    pub tid: i32,
    pub cpu: u32,
    pub time: u64,
    pub period: u64,
    /// Data address; its place is the frame after the others.
    pub addr: u64,
    /// Range in [`Batch::comms`].
    pub comm: (u32, u32),
    /// Number of frames, which follow those of the sample before.
    pub frames: u32,
    /// Whether the frames are a callchain; otherwise there is one, or none without an instruction pointer.
    pub chain: bool,
    /// Whether a further frame, not counted, is the data address's.
    pub addr_frame: bool,
    /// Number of [`EXTRAS`], which follow those of the sample before.
    pub extras: u8,
}

/// What a new symbol or DSO, each numbered as it comes, is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Symbol,
    Dso,
}

/// Samples in the order in which they are printed.
#[derive(Default)]
pub(super) struct Batch {
    pub samples: Vec<Sample>,
    pub frames: Vec<Frame>,
    pub extras: Vec<u64>,
    pub comms: Vec<u8>,
    /// Texts that are new with this batch: kind, and length in `names`.
    pub new: Vec<(Kind, u32)>,
    pub names: Vec<u8>,
    /// Whether all texts of before are void.
    pub forget: bool,
}

impl Batch {
    /// Empties it for further use.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.frames.clear();
        self.extras.clear();
        self.comms.clear();
        self.new.clear();
        self.names.clear();
        self.forget = false;
    }

    /// The samples, each with its frames.
    pub fn views<'a>(&'a self, texts: &'a Texts) -> impl Iterator<Item = View<'a>> {
        let mut rest: &[Frame] = &self.frames;
        let mut more: &[u64] = &self.extras;
        self.samples.iter().map(move |sample| {
            let (frames, behind) = rest.split_at_checked(sample.frames as usize).unwrap_or((rest, &[]));
            let (addr, behind) = match behind.split_first() {
                Some((addr, behind)) if sample.addr_frame => (Some(addr), behind),
                _ => (None, behind),
            };
            rest = behind;
            let (at, len) = (sample.comm.0 as usize, sample.comm.1 as usize);
            let comm = self.comms.get(at..at + len).unwrap_or_default();
            let (extras, behind) = more.split_at_checked(sample.extras.into()).unwrap_or((more, &[]));
            more = behind;
            View { sample, comm, frames, addr, extras, texts }
        })
    }

    pub fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES || self.samples.len() >= FRAMES || self.names.len() >= 16 * FRAMES
    }
}

/// Frames of a batch, about.
const FRAMES: usize = 2048;

/// A sample with what belongs to it.
pub(super) struct View<'a> {
    pub sample: &'a Sample,
    pub comm: &'a [u8],
    pub frames: &'a [Frame],
    /// The data address's.
    pub addr: Option<&'a Frame>,
    pub extras: &'a [u64],
    pub texts: &'a Texts,
}

impl View<'_> {
    /// One of [`EXTRAS`], if it is among the event's fields.
    #[inline]
    pub fn extra(&self, fields: Fields, which: Fields) -> Option<u64> {
        if self.extras.is_empty() || !fields.has(which) {
            return None;
        }
        let before = EXTRAS.iter().take_while(|&&extra| extra != which).filter(|&&extra| fields.has(extra));
        self.extras.get(before.count()).copied()
    }
}

/// The texts so far, on the side of the printer.
#[derive(Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    symbols: Vec<(usize, u32)>,
    dsos: Vec<(usize, u32)>,
}

impl Texts {
    /// Takes over what is new with a batch.
    pub fn learn(&mut self, batch: &Batch) {
        if batch.forget {
            *self = Texts::default();
        }
        let mut at = 0;
        for &(kind, len) in &batch.new {
            let name = batch.names.get(at..at + len as usize).unwrap_or_default();
            at += len as usize;
            let place = (self.bytes.len(), name.len() as u32);
            self.bytes.extend_from_slice(name);
            match kind {
                Kind::Symbol => self.symbols.push(place),
                Kind::Dso => self.dsos.push(place),
            }
        }
    }

    fn text(&self, list: &[(usize, u32)], id: u32) -> Option<&[u8]> {
        let &(at, len) = list.get(usize::try_from(id.checked_sub(1)?).ok()?)?;
        self.bytes.get(at..at + len as usize)
    }

    #[inline]
    pub fn symbol(&self, id: u32) -> Option<&[u8]> {
        self.text(&self.symbols, id)
    }

    #[inline]
    pub fn dso(&self, id: u32) -> Option<&[u8]> {
        self.text(&self.dsos, id)
    }
}
