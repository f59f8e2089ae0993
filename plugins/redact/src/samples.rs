//! Bytes of samples that may hold anything: stacks, raw data, AUX data.

use repipe_plugin::{Field, Host, Order, Record, field};

use super::options::{Bytes, Options};

/// What of the recording stays though it may hold names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Copies of stacks.
    pub stacks: bool,
    /// Raw data.
    pub raw: bool,
    /// AUX data.
    pub aux: bool,
}

/// The copy of a stack as it was reserved; the host tells of the part that was filled, and behind that may stand what was
/// in the kernel's buffer before.
fn stack(found: Field, bytes: &[u8], order: Order) -> Option<(usize, usize)> {
    let size = usize::try_from(order.u64(bytes, found.offset.checked_sub(8)?)?).ok()?;
    bytes.get(found.offset..found.offset.checked_add(size)?)?;
    Some((found.offset, size))
}

/// The sample as it is to be written; `None` if it stays. What it holds and keeps is noted.
pub fn hide(options: &Options, record: &Record<'_>, host: &mut Host<'_>, kept: &mut Kept) -> Option<Vec<u8>> {
    let (bytes, order) = (record.bytes(), record.order());
    let mut new: Option<Vec<u8>> = None;
    let fields = [
        (field::RAW, options.raw, &mut kept.raw),
        (field::AUX, options.aux, &mut kept.aux),
        // The last, since what stands behind it may move.
        (field::STACK_USER, options.stacks, &mut kept.stacks),
    ];
    for (which, what, kept) in fields {
        // Once noted, there is nothing more to look for.
        if what == Bytes::Keep && *kept {
            continue;
        }
        let Some(found) = host.field(which) else { continue };
        let place = if which == field::STACK_USER {
            stack(found, bytes, order)
        } else {
            Some((found.offset, found.len))
        };
        let Some((at, len)) = place.filter(|(_, len)| *len > 0) else { continue };
        if what == Bytes::Keep {
            *kept = true;
            continue;
        }
        let out = new.get_or_insert_with(|| bytes.to_vec());
        if let Some(place) = out.get_mut(at..at + len) {
            place.fill(0);
        }
        if what == Bytes::Drop && at + len + 8 <= out.len() {
            // A stack of no bytes has no word behind it that says how many were filled.
            out.drain(at..at + len + 8);
            let size = order.bytes16(out.len() as u16);
            if let Some(word) = out.get_mut(at - 8..at) {
                word.fill(0);
            }
            if let Some(word) = out.get_mut(6..8) {
                word.copy_from_slice(&size);
            }
        }
    }
    new
}
