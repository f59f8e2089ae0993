//! kallsyms: the running kernel's own list, `ADDRESS TYPE NAME` and `[MODULE]` after a tab. No sizes; not sorted.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::{KernelReference, KernelSymbols};
use crate::symbol::LoadError;
use crate::symbol::dso::{Addressing, DsoSymbols};
use crate::symbol::eager;
use crate::symbol::memory::{self, OutOfMemory};
use crate::symbol::sym::{SymbolBinding, SymbolType};
use crate::symbol::table::{EndRule, SymbolTable};

/// Largest list that is read.
const MAX: u64 = 1 << 30;
/// Bytes asked for at once; /proc gives a page.
const READ: usize = 64 << 10;
/// Longest name that the kernel has.
const MAX_NAME: usize = 512;
/// Text where the entry trampolines are mapped per CPU; those maps refer to the kernel's text.
const TRAMPOLINE: &[u8] = b"__entry_SYSCALL_64_trampoline";

/// A parsed list.
pub struct Kallsyms {
    path: PathBuf,
    table: SymbolTable,
    /// Functions that bounds and relocation are told by; in the table an alias may have won over them.
    landmarks: FxHashMap<Box<[u8]>, u64>,
    /// How many are modules'.
    of_modules: usize,
}

impl Kallsyms {
    /// Reads and parses a list, of the running kernel or a copy. The kernel takes longer to write it out than
    /// parsing takes, so a thread reads while this one parses.
    pub fn read(path: &Path) -> Result<Kallsyms, LoadError> {
        let mut file = File::open(path).map_err(|e| LoadError::io(path, e))?;
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::sync_channel(8);
            let reader = std::thread::Builder::new().name("kallsyms".into());
            let reader = reader.spawn_scoped(scope, move || {
                loop {
                    let mut part = Vec::with_capacity(READ);
                    let result = file.by_ref().take(READ as u64).read_to_end(&mut part).map(|_| part);
                    let ends = result.as_ref().map_or(true, Vec::is_empty);
                    // An error on this side means that parsing has given up.
                    if sender.send(result).is_err() || ends {
                        break;
                    }
                }
            });
            match reader {
                Ok(_) => Self::parse(path, Parts { receiver, part: Vec::new(), at: 0 }),
                Err(_) => Self::parse(path, File::open(path).map_err(|e| LoadError::io(path, e))?),
            }
        })
    }

    /// Parses a list while reading it.
    pub fn parse(path: &Path, mut reader: impl Read) -> Result<Kallsyms, LoadError> {
        let mut list = Kallsyms {
            path: path.into(),
            table: SymbolTable::new(),
            landmarks: FxHashMap::default(),
            of_modules: 0,
        };
        let oom = |_: OutOfMemory| LoadError::OutOfMemory(path.into());
        let (mut buf, mut used, mut total, mut highest) = (vec![0; READ], 0, 0u64, 0u64);
        loop {
            let space = buf.get_mut(used..).unwrap_or_default();
            let n = match reader.read(space) {
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(LoadError::io(path, e)),
            };
            used += n;
            total += n as u64;
            if total > MAX {
                return Err(LoadError::TooLarge(path.into()));
            }
            let filled = buf.get(..used).unwrap_or_default();
            // Up to the last whole line; at the end, all.
            let whole = match newline(filled, true) {
                _ if n == 0 => used,
                Some(last) => last + 1,
                None if used == buf.len() => used,
                None => 0,
            };
            let mut rest = filled.get(..whole).unwrap_or_default();
            while !rest.is_empty() {
                let len = newline(rest, false).unwrap_or(rest.len());
                if let Some(line) = Line::parse(rest.get(..len).unwrap_or_default()) {
                    highest = highest.max(line.address);
                    list.add(&line).map_err(oom)?;
                }
                rest = rest.get(len + 1..).unwrap_or_default();
            }
            if n == 0 {
                break;
            }
            buf.copy_within(whole..used, 0);
            used -= whole;
        }
        match list.table.is_empty() {
            true => Err(LoadError::NoSymbols(path.into())),
            false if highest == 0 => Err(LoadError::Restricted(path.into())),
            false => Ok(list),
        }
    }

    fn add(&mut self, line: &Line<'_>) -> Result<(), OutOfMemory> {
        if line.is_function() && matches!(line.name, b"_text" | b"_stext" | b"_etext" | TRAMPOLINE) {
            self.landmarks.insert(line.name.into(), line.address);
        }
        if !matches!(line.kind.to_ascii_uppercase(), b'T' | b'W' | b'D' | b'B') || line.name.starts_with(b"$")
        {
            return Ok(());
        }
        self.of_modules += usize::from(line.name.ends_with(b"]"));
        let kind = if line.is_function() { SymbolType::FUNC } else { SymbolType::OBJECT };
        self.table.push(line.address, line.address, line.binding(), kind, line.name)
    }

    /// The address of one of the functions that bounds and relocation are told by: `_text`, `_stext`,
    /// `_etext`.
    pub fn landmark(&self, name: &str) -> Option<u64> {
        self.landmarks.get(name.as_bytes()).copied()
    }

    /// The symbols, for addresses as they were when the reference symbol was where it says.
    pub fn into_symbols(mut self, reference: Option<&KernelReference>) -> Result<KernelSymbols, LoadError> {
        let moved = match reference {
            Some(r) => {
                let here = self
                    .landmark(&r.name)
                    .or_else(|| Some(self.table.find_by_name(r.name.as_bytes())?.start));
                // Without it, nothing tells whether this list is of the recorded boot.
                let here = here
                    .ok_or_else(|| LoadError::NotFound(format!("{} in {}", r.name, self.path.display())))?;
                r.address.wrapping_sub(here)
            }
            None => 0,
        };
        let path = std::mem::take(&mut self.path);
        let (kernel, modules) = self.split(moved).map_err(|_| LoadError::OutOfMemory(path.clone()))?;
        let wrap = |table| DsoSymbols::eager(table, Addressing::Absolute, &path);
        let modules = modules.into_iter().map(|(name, table)| (name, wrap(table))).collect();
        Ok(KernelSymbols { kernel: wrap(kernel), modules })
    }

    /// Finds ends over all of it, then parts the modules from the kernel.
    fn split(mut self, moved: u64) -> Result<(SymbolTable, Vec<(String, SymbolTable)>), OutOfMemory> {
        eager::settle(&mut self.table, EndRule::Kallsyms)?;
        // Where modules have few of the names, the kernel's stay where they are.
        let few = self.of_modules <= self.table.len() / 16;
        let mut kernel = SymbolTable::new();
        if !few {
            kernel.reserve(self.table.len(), 0)?;
        }
        let mut modules: Vec<(String, SymbolTable)> = Vec::new();
        let mut positions: FxHashMap<Box<[u8]>, usize> = FxHashMap::default();
        let all = if few && self.of_modules == 0 { None } else { Some(self.table.iter()) };
        for symbol in all.into_iter().flatten() {
            let name = self.table.name(symbol);
            let tab = memchr::memchr(b'\t', name).unwrap_or(name.len());
            let (short, module) =
                (name.get(..tab).unwrap_or_default(), name.get(tab + 1..).unwrap_or_default());
            let (table, by) = if module.is_empty() {
                if few || short == TRAMPOLINE {
                    continue;
                }
                (&mut kernel, moved)
            } else {
                let next = positions.len();
                let at = *positions.entry(module.into()).or_insert(next);
                if at == modules.len() {
                    memory::push(&mut modules, (String::from_utf8_lossy(module).into(), SymbolTable::new()))?;
                }
                match modules.get_mut(at) {
                    // Modules do not move with the kernel.
                    Some((_, table)) => (table, 0),
                    None => continue,
                }
            };
            let (start, end) = (symbol.start.wrapping_add(by), symbol.end.wrapping_add(by));
            table.push(start, end, symbol.binding, symbol.kind, short)?;
        }
        if few {
            kernel = self.table;
            kernel.keep_moved(moved, |name| name != TRAMPOLINE && memchr::memchr(b'\t', name).is_none());
        }
        for table in std::iter::once(&mut kernel).chain(modules.iter_mut().map(|(_, table)| table)) {
            table.sort()?;
            table.finish()?;
        }
        Ok((kernel, modules))
    }
}

/// What a reading thread sends, in order.
struct Parts {
    receiver: std::sync::mpsc::Receiver<std::io::Result<Vec<u8>>>,
    part: Vec<u8>,
    at: usize,
}

impl Read for Parts {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.part.len() {
            self.part = self.receiver.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.at = 0;
        }
        let n = self.part.get(self.at..).unwrap_or_default().read(buf)?;
        self.at += n;
        Ok(n)
    }
}

/// One line.
struct Line<'a> {
    address: u64,
    kind: u8,
    name: &'a [u8],
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let mut address = 0u64;
        let mut digits = 0;
        for &byte in line.iter().take(17) {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                _ => break,
            };
            address = address << 4 | u64::from(digit);
            digits += 1;
        }
        if digits == 0 || digits > 16 {
            return None;
        }
        let [b' ', kind, b' ', name @ ..] = line.get(digits..)? else { return None };
        Some(Line { address, kind: *kind, name: name.get(..name.len().min(MAX_NAME))? })
    }

    fn is_function(&self) -> bool {
        matches!(self.kind, b't' | b'T' | b'w' | b'W')
    }

    fn binding(&self) -> SymbolBinding {
        match self.kind {
            b'W' => SymbolBinding::WEAK,
            upper if upper.is_ascii_uppercase() => SymbolBinding::GLOBAL,
            _ => SymbolBinding::LOCAL,
        }
    }
}

/// Position of the first or last newline.
fn newline(bytes: &[u8], last: bool) -> Option<usize> {
    if last { memchr::memrchr(b'\n', bytes) } else { memchr::memchr(b'\n', bytes) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIST: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T startup_64
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_one_initcall
ffffffff81000200 W weak_one
ffffffff81000200 T __x64_sys_read
ffffffff81000300 T sys_read
ffffffff81000400 r a_constant
ffffffff81000500 D jiffies
ffffffffc0001000 t ext4_init\t[ext4]
ffffffffc0000010 t ext4_read\t[ext4]
ffffffffc0008000 t jbd2_go\t[jbd2]
not a line
";

    fn names(symbols: &DsoSymbols) -> Vec<(u64, u64, String)> {
        symbols.iter().map(|s| (s.start(), s.end(), s.name_lossy().into_owned())).collect()
    }

    fn load(list: &str, reference: Option<&KernelReference>) -> Result<KernelSymbols, LoadError> {
        Kallsyms::parse(Path::new("kallsyms"), list.as_bytes())?.into_symbols(reference)
    }

    #[test]
    fn the_kernel_and_its_modules() {
        let symbols = load(LIST, None).unwrap();
        let k = 0xffff_ffff_8100_0000;
        let m = 0xffff_ffff_c000_0000;
        assert_eq!(
            names(&symbols.kernel),
            [
                (k, k + 0x100, "_text".into()),
                (k + 0x100, k + 0x200, "do_one_initcall".into()),
                (k + 0x200, k + 0x300, "__x64_sys_read".into()),
                (k + 0x300, k + 0x500, "sys_read".into()),
                (k + 0x500, k + 0x2000, "jiffies".into()),
            ]
        );
        let modules: Vec<_> = symbols.modules.iter().map(|(name, s)| (name.as_str(), names(s))).collect();
        assert_eq!(
            modules,
            [
                (
                    "[ext4]",
                    vec![
                        (m + 0x10, m + 0x1000, "ext4_read".into()),
                        (m + 0x1000, m + 0x2000, "ext4_init".into())
                    ]
                ),
                ("[jbd2]", vec![(m + 0x8000, m + 0x9000, "jbd2_go".into())]),
            ]
        );
    }

    #[test]
    fn a_relocated_kernel_is_moved_and_modules_are_not() {
        let reference = KernelReference { name: "_stext".into(), address: 0xffff_ffff_9200_0000 };
        let symbols = load(LIST, Some(&reference)).unwrap();
        let found = symbols.kernel.find(0xffff_ffff_9200_0110).unwrap();
        assert_eq!(found.name(), b"do_one_initcall");
        assert_eq!(
            symbols.modules.first().unwrap().1.find(0xffff_ffff_c000_0020).unwrap().name(),
            b"ext4_read"
        );
        let missing = KernelReference { name: "_nope".into(), address: 1 };
        assert!(matches!(load(LIST, Some(&missing)), Err(LoadError::NotFound(_))));
    }

    #[test]
    fn hidden_addresses_are_refused() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t other\n";
        assert!(matches!(load(hidden, None), Err(LoadError::Restricted(_))));
        assert!(matches!(load("", None), Err(LoadError::NoSymbols(_))));
    }

    #[test]
    fn lines_may_be_cut_anywhere_by_reads() {
        struct Drip<'a>(&'a [u8]);
        impl Read for Drip<'_> {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                let n = self.0.len().min(7).min(buf.len());
                buf[..n].copy_from_slice(&self.0[..n]);
                self.0 = &self.0[n..];
                Ok(n)
            }
        }
        let dripped = Kallsyms::parse(Path::new("k"), Drip(LIST.trim_end().as_bytes())).unwrap();
        let whole = load(LIST, None).unwrap();
        assert_eq!(names(&dripped.into_symbols(None).unwrap().kernel), names(&whole.kernel));
    }
}
