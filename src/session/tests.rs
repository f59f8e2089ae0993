//! The session as a whole: records in, locations out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use super::dso::{DEFAULT_GUEST, FileId, Identity};
use super::*;
use crate::event::mmap;

const KERNEL: u16 = 1;
const USER: u16 = 2;
const GUEST_KERNEL: u16 = 4;
const GUEST_USER: u16 = 5;

fn session() -> Session {
    Session::new(Arch::from_name("x86_64"))
}

fn record(misc: u16, pid: i32, range: (u64, u64), pgoff: u64, filename: &[u8]) -> Mmap<'_> {
    let (start, len) = range;
    let file = mmap::FileId::None;
    Mmap { misc, pid, tid: pid, start, len, pgoff, file, prot: 5, flags: 2, filename }
}

fn ksymbol(addr: u64, len: u32, ksym_type: u16, flags: u16, name: &[u8]) -> Ksymbol<'_> {
    Ksymbol { addr, len, ksym_type, flags, name }
}

/// DSO's name and address in it.
fn at(session: &mut Session, pid: i32, cpumode: CpuMode, ip: u64) -> Option<(String, u64)> {
    let machine = session.machine_of(cpumode, None, pid);
    let al = session.view(machine, pid, pid).resolve(cpumode, ip);
    Some((String::from_utf8_lossy(al.map?.dso().shown_name()).into_owned(), al.addr))
}

fn some(name: &str, addr: u64) -> Option<(String, u64)> {
    Some((name.to_owned(), addr))
}

#[test]
fn cpumode_decides_where_an_address_lies() {
    let mut s = session();
    let text = 0xffff_ffff_8100_0000;
    s.mmap(HOST, &record(KERNEL, -1, (text, 0x100_0000), text, b"[kernel.kallsyms]_text"));
    s.mmap(HOST, &record(KERNEL, -1, (0xffff_ffff_c000_0000, 0x1000), 0, b"/lib/modules/6/xfs.ko.xz"));
    s.mmap(HOST, &record(USER, 7, (0x40_0000, 0x1000), 0x2000, b"/bin/x"));
    use CpuMode::{GuestKernel, GuestUser, Hypervisor, Kernel, Unknown, User};
    assert_eq!(at(&mut s, 7, Kernel, text + 5), some("[kernel.kallsyms]", text + 5));
    assert_eq!(at(&mut s, 7, Kernel, 0xffff_ffff_c000_0010), some("[xfs]", 0x10));
    assert_eq!(at(&mut s, 7, User, 0x40_0010), some("/bin/x", 0x2010));
    assert_eq!(at(&mut s, 8, User, 0x40_0010), None);
    for mode in [Unknown, Hypervisor, GuestKernel, GuestUser] {
        assert_eq!(at(&mut s, 7, mode, text + 5), None);
        assert_eq!(at(&mut s, 7, mode, 0x40_0010), None);
    }
    assert_eq!(at(&mut s, 7, User, text + 5), None);
    let mut view = s.view(HOST, 7, 7);
    let al = view.resolve_fallback(User, text + 5);
    assert_eq!((al.level(), al.map.is_some()), ('k', true));
    assert_eq!(view.resolve_fallback(Kernel, 0x40_0010).level(), '.');
    let machine = s.machines().host();
    let reference = machine.reference_symbol().unwrap();
    assert_eq!((&*reference.name, reference.address), (&b"_text"[..], text));
    assert_eq!(machine.kernel_start(), 1 << 63);
    s.set_arch(Arch::from_name("aarch64"));
    assert_eq!(s.machines().host().kernel_start(), text);
    s.set_arch(Arch::from_name("sparc64"));
    assert!(s.view(HOST, 7, 7).find_fallback(User, text + 5).is_none());
}

#[test]
fn a_kernel_of_unknown_range_lies_under_its_modules() {
    let mut s = session();
    s.mmap(HOST, &record(KERNEL, -1, (0, 0), 0, b"[kernel.kallsyms]"));
    let module = record(KERNEL, -1, (0xffff_ffff_c000_0000, 0x1000), 0, b"[nf]");
    s.mmap(HOST, &module);
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, 0xffff_ffff_c000_0fff), some("[nf]", 0xfff));
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, 0xffff_ffff_c000_1000).unwrap().0, "[kernel.kallsyms]");
    // A module of unknown range takes nothing from the kernel.
    s.mmap(HOST, &record(KERNEL, -1, (0, u64::MAX), 0, b"/lib/modules/3/pata_acpi.ko"));
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, 0xffff_ffff_8109_981c).unwrap().0, "[kernel.kallsyms]");
    // A second map of the kernel replaces the first, also where modules had cut it; the modules stay.
    s.mmap(HOST, &record(KERNEL, -1, (0xffff_ffff_8000_0000, u64::MAX), 8, b"[kernel.kallsyms]_stext"));
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, 0x1000), None);
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, 0xffff_ffff_c000_0fff), some("[nf]", 0xfff));
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, u64::MAX - 1).unwrap().0, "[kernel.kallsyms]");
    assert_eq!(s.machines().host().kernel_maps().len(), 3);
    // Entry trampolines are another part of the kernel's DSO.
    let trampoline = 0xffff_fe00_0000_6000;
    let name = b"__entry_SYSCALL_64_trampoline";
    s.mmap(HOST, &record(KERNEL, -1, (trampoline, 0x1000), 0x8000, name));
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, trampoline + 4), some("[kernel.kallsyms]", 0x8004));
    assert_eq!(s.dsos().len(), 3);
}

#[test]
fn bpf_programs_come_and_go() {
    let mut s = session();
    let addr = 0xffff_ffff_c020_0000;
    s.ksymbol(HOST, &ksymbol(addr, 0x100, Ksymbol::TYPE_BPF, 0, b"bpf_prog_6deef7357e7b4530"));
    s.ksymbol(HOST, &ksymbol(addr + 0x1000, 0x100, Ksymbol::TYPE_BPF, 0, b"bpf_trampoline_1"));
    let map = s.ksymbol(HOST, &ksymbol(addr + 0x2000, 0x100, Ksymbol::TYPE_OOL, 0, b"ftrace_trampoline"));
    assert_eq!(map.unwrap().dso().kind(), DsoKind::OutOfLine);
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, addr + 8), some("bpf_prog_6deef7357e7b4530", 8));
    let kinds: Vec<_> = s.dsos().iter().map(|dso| dso.kind()).collect();
    assert_eq!(kinds, [DsoKind::Bpf, DsoKind::BpfImage, DsoKind::OutOfLine]);
    s.ksymbol(HOST, &ksymbol(addr, 0x100, Ksymbol::TYPE_BPF, 1, b"bpf_prog_6deef7357e7b4530"));
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, addr + 8), None);
    // Whoever unregisters what it did not register takes no module with it.
    s.mmap(HOST, &record(KERNEL, -1, (addr, 0x1000), 0, b"[nf]"));
    s.ksymbol(HOST, &ksymbol(addr, 0x100, Ksymbol::TYPE_BPF, 1, b"bpf_prog_6deef7357e7b4530"));
    assert_eq!(at(&mut s, 1, CpuMode::Kernel, addr + 8), some("[nf]", 8));
}

#[test]
fn guests_are_apart_from_the_host() {
    let mut s = session();
    let text = 0xffff_ffff_8100_0000;
    s.mmap(HOST, &record(KERNEL, -1, (text, 0x1000), text, b"[kernel.kallsyms]_text"));
    let guest = s.machine_of(CpuMode::GuestKernel, None, 55);
    assert_eq!(guest, DEFAULT_GUEST);
    s.mmap(guest, &record(GUEST_KERNEL, -1, (text, 0x1000), text, b"[guest.kernel.kallsyms]_text"));
    s.mmap(guest, &record(GUEST_USER, 55, (0x1000, 0x1000), 0, b"/bin/x"));
    s.mmap(HOST, &record(USER, 55, (0x1000, 0x1000), 0, b"/bin/x"));
    assert_eq!(at(&mut s, 55, CpuMode::GuestKernel, text).unwrap().0, "[guest.kernel.kallsyms]");
    assert_eq!(at(&mut s, 55, CpuMode::GuestUser, 0x1000), some("/bin/x", 0));
    let modes: Vec<_> = s.dsos().iter().map(|dso| dso.cpumode()).collect();
    use CpuMode::{GuestKernel, GuestUser, Kernel, User};
    assert_eq!(modes, [Kernel, GuestKernel, GuestUser, User]);
    // A guest that is known by the pid of its process, and one that the id table names.
    s.machines_mut().ensure(55);
    assert_eq!(s.machine_of(GuestUser, None, 55), 55);
    assert_eq!(s.machine_of(GuestUser, Some(66), 55), 66);
    assert_eq!(s.machine_of(User, Some(66), 55), HOST);
    assert_eq!(s.machines().get(55).unwrap().kernel_name(), b"[guest.kernel.kallsyms.55]");
}

#[test]
fn files_are_told_apart_by_what_their_records_say() {
    let mut s = session();
    let inode = |ino| mmap::FileId::Inode { maj: 8, min: 1, ino, generation: 3 };
    let mut map = |start, file| {
        let record = Mmap { file, ..record(USER, 9, (start, 0x1000), 0, b"/bin/x") };
        Arc::clone(s.mmap(HOST, &record))
    };
    let one = map(0x1000, inode(1));
    let two = map(0x2000, inode(2));
    let again = map(0x5000, inode(1));
    let by_id = map(0x6000, mmap::FileId::BuildId(&[7; 20]));
    let unknown_id = map(0x7000, mmap::FileId::BuildId(&[]));
    let name = map(0x8000, mmap::FileId::None);
    assert!(Arc::ptr_eq(&one, &again) && !Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&unknown_id, &name));
    assert_eq!(one.file_id(), Some(FileId { maj: 8, min: 1, ino: 1, ino_generation: 3 }));
    assert_eq!(by_id.build_id().unwrap().as_bytes(), [7; 20]);
    assert_eq!((one.first_pid(), s.dsos().named(b"/bin/x").count()), (9, 4));
}

#[test]
fn executable_memory_is_where_a_jit_puts_code() {
    let mut s = session();
    s.mmap(HOST, &record(USER, 9, (0x1000, 0x1000), 0x1000, b"//anon"));
    s.mmap(HOST, &record(USER, 10, (0x1000, 0x1000), 0x1000, b"//anon"));
    s.mmap(HOST, &Mmap { prot: 3, ..record(USER, 10, (0x3000, 0x1000), 0x3000, b"//anon") });
    s.mmap(HOST, &record(USER, 10, (0x5000, 0x1000), 0, b"/memfd:jit (deleted)"));
    s.mmap(HOST, &record(USER, 10, (0x7000, 0x1000), 0x7000, b"[vdso]"));
    assert_eq!(at(&mut s, 9, CpuMode::User, 0x1010), some("/tmp/perf-9.map", 0x1010));
    assert_eq!(at(&mut s, 10, CpuMode::User, 0x1010), some("/tmp/perf-10.map", 0x1010));
    assert_eq!(at(&mut s, 10, CpuMode::User, 0x3010), some("//anon", 0x3010));
    assert_eq!(at(&mut s, 10, CpuMode::User, 0x5010), some("/memfd:jit (deleted)", 0x10));
    assert_eq!(at(&mut s, 10, CpuMode::User, 0x7010), some("[vdso]", 0x10));
    let identities: Vec<_> = s.dsos().iter().map(|dso| dso.identity()).collect();
    assert_eq!(identities[..3], [Identity::Process(9), Identity::Process(10), Identity::Name]);
}

#[test]
fn hits_pass_to_a_fork_but_not_back() {
    let mut s = session();
    s.mmap(HOST, &record(USER, 1, (0x1000, 0x1000), 0, b"/bin/a"));
    s.mmap(HOST, &record(USER, 1, (0x5000, 0x1000), 0, b"/bin/b"));
    let hit = |s: &mut Session, pid, ip| {
        let mut view = s.view(HOST, pid, pid);
        let index = view.find(CpuMode::User, ip).unwrap().index;
        view.mark_hit(CpuMode::User, index)
    };
    assert!(hit(&mut s, 1, 0x1000) && !hit(&mut s, 1, 0x1fff));
    s.fork(HOST, &Fork { pid: 2, ppid: 1, tid: 2, ptid: 1, time: 0, exec: false });
    assert!(!hit(&mut s, 2, 0x1000) && hit(&mut s, 2, 0x5000));
    assert!(hit(&mut s, 1, 0x5000));
}

#[test]
fn load_maps_visits_the_kernel_maps_of_every_machine() {
    let mut s = session();
    s.mmap(HOST, &record(KERNEL, -1, (1 << 63, 0x1000), 1, b"[kernel.kallsyms]_text"));
    s.mmap(HOST, &record(KERNEL, -1, ((1 << 63) + 0x2000, 0x1000), 0, b"[nf]"));
    s.mmap(DEFAULT_GUEST, &record(GUEST_KERNEL, -1, (1 << 63, 8), 1, b"[guest.kernel.kallsyms]_text"));
    let seen = std::sync::Mutex::new(Vec::new());
    s.load_maps(2, |machine, map| {
        // What loading finds out may move the map.
        machine.kernel_maps().mutate_mapping(map, |extent| extent.end += 8).unwrap();
        seen.lock().unwrap().push((machine.pid(), map.size()));
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort();
    assert_eq!(seen, [(HOST, 0x1008), (HOST, 0x1008), (DEFAULT_GUEST, 16)]);
}
