//! What a plugin says of itself, read with care.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use repipe_plugin_abi as abi;

use crate::error::{Error, ErrorKind, Result};

/// A descriptor: what every 1.x has, with strings taken over.
#[derive(Clone, Debug)]
pub struct Info {
    /// Major and minor version of the interface that it was built for.
    pub abi: (u32, u32),
    /// Name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// One line.
    pub summary: String,
    /// More, its arguments above all.
    pub description: String,
    /// Licence.
    pub license: String,
    /// Whether records are wanted by time.
    pub by_time: bool,
    /// Whether maps and threads may be asked for.
    pub needs_session: bool,
    /// Whether it resolves addresses.
    pub needs_symbols: bool,
    /// Whether it asks for callchains.
    pub needs_unwind: bool,
    /// Whether it edits feature sections.
    pub edits_features: bool,
    /// Whether it does that as sections become known, too.
    pub follows_features: bool,
    /// Record types that are wanted; all, if there is none.
    pub record_types: Vec<u32>,
    /// Names of events whose samples are wanted; all, if there is none.
    pub events: Vec<String>,
    pub(super) raw: abi::Plugin,
}

impl Info {
    /// `RPP_NEEDS_*` that are met: all that it needs, and of what it wishes what the order of its records allows.
    pub(super) fn granted(&self) -> u64 {
        let known = abi::NEEDS_SYMBOLS | abi::NEEDS_UNWIND;
        self.raw.needs | if self.needs_session { self.raw.wishes & known } else { 0 }
    }
}

/// Loads a shared object and reads its descriptor.
pub(super) fn load(path: &Path) -> Result<(Library, Info)> {
    let refuse = |why: String| Error::new(ErrorKind::Plugin, format!("plugin {}: {why}", path.display()));
    if let Some(fault) = crate::plugin::object::fault(path) {
        return Err(fault.of(&format!("plugin {}:", path.display())));
    }
    // SAFETY: loading runs the object's initialisers: code that the user asked to be run in this process.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| {
        let cause = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
        refuse(format!("cannot be loaded: {cause}"))
    })?;
    // SAFETY: the type is the interface's for this name.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY.as_bytes()) }
        .map(|f| *f)
        .map_err(|_| refuse(format!("has no symbol {}, so it is no plugin", abi::ENTRY)))?;
    // SAFETY: the function's type is the interface's.
    let descriptor = unsafe { entry() };
    if descriptor.is_null() || !descriptor.is_aligned() {
        return Err(refuse(format!("{} gave no descriptor", abi::ENTRY)));
    }
    // SAFETY: every version's descriptor begins with its versions and its size.
    let (major, minor, size) = unsafe {
        (
            (&raw const (*descriptor).abi_major).read(),
            (&raw const (*descriptor).abi_minor).read(),
            (&raw const (*descriptor).size).read(),
        )
    };
    if major != abi::ABI_MAJOR {
        return Err(refuse(format!(
            "is built for version {major}.{minor} of the plugin interface, this is {}.{}",
            abi::ABI_MAJOR,
            abi::ABI_MINOR
        )));
    }
    if (size as usize) < abi::v1_0::PLUGIN {
        return Err(refuse(format!(
            "its descriptor has {size} bytes, those of version 1.0 have {}",
            abi::v1_0::PLUGIN
        )));
    }
    let mut raw = MaybeUninit::<abi::Plugin>::zeroed();
    // SAFETY: both have so many bytes: the descriptor says so.
    unsafe {
        descriptor
            .cast::<u8>()
            .copy_to_nonoverlapping(raw.as_mut_ptr().cast(), size_of::<abi::Plugin>().min(size as usize));
    }
    // SAFETY: zero is a value for what an older descriptor does not have.
    let raw = unsafe { raw.assume_init() };
    let info = check(raw).map_err(refuse)?;
    Ok((library, info))
}

fn check(raw: abi::Plugin) -> Result<Info, String> {
    if (raw.record_size as usize) < abi::v1_0::RECORD || (raw.host_size as usize) < abi::v1_0::HOST {
        return Err(format!(
            "its structures have {} and {} bytes, those of version 1.0 have {} and {}",
            raw.record_size,
            raw.host_size,
            abi::v1_0::RECORD,
            abi::v1_0::HOST
        ));
    }
    if raw.order > abi::ORDER_TIME_ALONE {
        return Err(format!("wants records in an order, {}, that is not known", raw.order));
    }
    let unknown = raw.needs & !(abi::NEEDS_SYMBOLS | abi::NEEDS_UNWIND | abi::EDITS_FEATURES);
    if unknown != 0 {
        return Err(format!("needs what this version does not have (bits {unknown:#x})"));
    }
    let has = |bit| raw.needs & bit != 0;
    let needs_session = raw.order == abi::ORDER_TIME;
    for (bit, what) in [(abi::NEEDS_SYMBOLS, "symbols"), (abi::NEEDS_UNWIND, "unwinding")] {
        if has(bit) && !needs_session {
            return Err(format!("needs {what}, but not the order by time that it takes"));
        }
    }
    let name = text(raw.name).filter(|name| !name.is_empty()).ok_or("has no name")?;
    if raw.records.is_none() {
        return Err(format!("{name} has no function for records"));
    }
    if raw.open.is_none() && raw.close.is_some() {
        return Err(format!("{name} has a close without an open"));
    }
    let or_empty = |pointer| text(pointer).unwrap_or_default();
    let bits = raw.record_types.iter().enumerate();
    let record_types = bits
        .flat_map(|(word, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word as u32 * 64 + bit)
        })
        .collect();
    let events = or_empty(raw.events).split(',').filter(|e| !e.is_empty()).map(str::to_owned).collect();
    Ok(Info {
        abi: (raw.abi_major, raw.abi_minor),
        name,
        version: or_empty(raw.version),
        summary: or_empty(raw.summary),
        description: or_empty(raw.description),
        license: or_empty(raw.license),
        by_time: raw.order != abi::ORDER_FILE,
        needs_session,
        needs_symbols: has(abi::NEEDS_SYMBOLS),
        needs_unwind: has(abi::NEEDS_UNWIND),
        edits_features: has(abi::EDITS_FEATURES),
        follows_features: raw.features.is_some(),
        record_types,
        events,
        raw,
    })
}

fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: null, or a C string of the loaded object.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
