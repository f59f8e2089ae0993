//! Tests of the resolver: each source, its condition, and the order between them.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::testing::TestElf;
use super::*;

fn id(n: u8) -> BuildId {
    BuildId::from_bytes(&[n; 20]).unwrap()
}

fn found(n: u8, source: IdSource) -> Resolution {
    Ok(Found { id: id(n), source })
}

/// A directory with an ELF file of id 1, and an empty cache.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        place.write("x.so", 1);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, n: u8) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), TestElf::with_id(&[n; 20]).build()).unwrap();
    }

    /// A DSO at `x.so` with its device and inode.
    fn key(&self) -> DsoKey {
        let path = self.path("x.so");
        let mut key = DsoKey::new(path.as_os_str().as_bytes(), DsoKind::User);
        if let Ok(meta) = fs::metadata(&path) {
            key.inode = meta.ino();
            (key.major, key.minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        }
        key
    }

    fn options(&self) -> ResolverOptions {
        ResolverOptions { buildid_dir: Some(self.path("cache")), ..ResolverOptions::default() }
    }

    fn resolver(&self) -> Resolver {
        Resolver::new(self.options()).unwrap()
    }

    fn cached(&self, name: &Path, n: u8) -> PathBuf {
        let relative = name.strip_prefix("/").unwrap_or(name).join(id(n).to_string());
        self.write(Path::new("cache").join(&relative).join("elf").to_str().unwrap(), n);
        self.path("cache").join(relative).join("elf")
    }
}

fn this_host() -> HostIdentity {
    HostIdentity::of_this_machine()
}

fn other_host() -> HostIdentity {
    HostIdentity { hostname: Some(b"elsewhere.example".to_vec()), ..this_host() }
}

#[test]
fn sources_are_asked_in_order() {
    let place = Place::new();
    let path = place.path("x.so");
    let mut key = DsoKey { recorded: Some(id(9)), ..place.key() };
    let list = format!("{} {}", id(8), path.display());
    let known = KnownBuildIds::from_option(OsStr::new(&list)).unwrap();
    let mut recorded = RecordedIds::default();
    recorded.insert(false, false, path.as_os_str().as_bytes(), id(7));
    place.cached(&path, 6);
    let all =
        Resolver::new(ResolverOptions { known, recorded: recorded.clone(), ..place.options() }).unwrap();
    assert_eq!(all.resolve(&key), found(9, IdSource::Record));
    key.recorded = None;
    assert_eq!(all.resolve(&key), found(8, IdSource::Known));
    let table = Resolver::new(ResolverOptions { recorded, ..place.options() }).unwrap();
    assert_eq!(table.resolve(&key), found(7, IdSource::Table));
    assert_eq!(place.resolver().resolve(&key), found(1, IdSource::File));
    fs::remove_file(&path).unwrap();
    // by its path alone a cached image is not known to be of the recorded inode
    assert_eq!(place.resolver().resolve(&key), Err(MissReason::NoSuchFile));
    key.inode = 0;
    assert_eq!(place.resolver().resolve(&key), found(6, IdSource::Cache));
    fs::remove_dir_all(place.path("cache")).unwrap();
    assert_eq!(place.resolver().resolve(&key), Err(MissReason::NoSuchFile));
}

#[test]
fn a_file_counts_if_its_inode_is_the_recorded_one() {
    let place = Place::new();
    let key = place.key();
    let resolver = place.resolver();
    assert_eq!(resolver.resolve(&key), found(1, IdSource::File));
    // btrfs and overlayfs
    assert_eq!(resolver.resolve(&DsoKey { major: 0, minor: 0xfff, ..key.clone() }), found(1, IdSource::File));
    // records without an inode
    let untold = DsoKey { inode: 0, major: 0, minor: 0, ..key.clone() };
    assert_eq!(resolver.resolve(&untold), found(1, IdSource::File));
    let replaced = DsoKey { inode: key.inode + 1, ..key };
    assert_eq!(resolver.resolve(&replaced), Err(MissReason::InodeDiffers));
    let forced = Resolver::new(ResolverOptions { force: true, ..place.options() }).unwrap();
    assert_eq!(forced.resolve(&replaced), found(1, IdSource::File));
}

#[test]
fn an_inode_used_again_has_another_generation() {
    let place = Place::new();
    let file = fs::File::open(place.path("x.so")).unwrap();
    let Some(generation) = crate::data::inode_generation(&file) else {
        eprintln!("skipped: the file system of temporary files has no generations");
        return;
    };
    let of = |generation| place.resolver().resolve(&DsoKey { generation, ..place.key() });
    assert_eq!(of(generation), found(1, IdSource::File));
    assert_eq!(of(generation + 1), Err(MissReason::GenerationDiffers));
}

#[test]
fn on_another_machine_only_an_inode_tells_a_file() {
    let place = Place::new();
    let host = |host| Resolver::new(ResolverOptions { host, ..place.options() }).unwrap();
    let untold = DsoKey { inode: 0, ..place.key() };
    assert_eq!(host(other_host()).resolve(&place.key()), found(1, IdSource::File));
    assert_eq!(host(other_host()).resolve(&untold), Err(MissReason::OtherMachine));
    assert_eq!(host(this_host()).resolve(&untold), found(1, IdSource::File));
}

#[test]
fn a_file_made_after_the_recording_is_not_the_one_recorded() {
    let place = Place::new();
    let at = |recorded_at, force, key: &DsoKey| {
        let options = ResolverOptions { recorded_at: Some(recorded_at), force, ..place.options() };
        Resolver::new(options).unwrap().resolve(key)
    };
    let (hour, now) = (Duration::from_secs(3600), SystemTime::now());
    let untold = DsoKey { inode: 0, ..place.key() };
    assert_eq!(at(now + hour, false, &place.key()), found(1, IdSource::File));
    assert_eq!(at(now - hour, false, &untold), Err(MissReason::NewerThanRecording));
    assert_eq!(at(now - hour, true, &untold), found(1, IdSource::File));
    // born after the recording, though its inode and its time say otherwise
    let file = fs::File::options().write(true).open(place.path("x.so")).unwrap();
    file.set_modified(now - 2 * hour).unwrap();
    if fs::metadata(place.path("x.so")).unwrap().created().is_ok() {
        assert_eq!(at(now - hour, false, &place.key()), Err(MissReason::NewerThanRecording));
    }
}

#[test]
fn a_file_that_was_written_over_keeps_its_inode_and_so_its_trust() {
    let place = Place::new();
    let born = fs::metadata(place.path("x.so")).unwrap().created();
    let Ok(born) = born else { return eprintln!("skipped: the file system knows no creation times") };
    let file = fs::File::options().write(true).open(place.path("x.so")).unwrap();
    file.set_modified(born + Duration::from_secs(7200)).unwrap();
    let recorded_at = Some(born + Duration::from_secs(3600));
    let resolver = Resolver::new(ResolverOptions { recorded_at, ..place.options() }).unwrap();
    assert_eq!(resolver.resolve(&place.key()), found(1, IdSource::File));
}

#[test]
fn below_symfs_any_file_at_the_path_counts_and_no_other() {
    let place = Place::new();
    let resolver =
        |root: &Path| Resolver::new(ResolverOptions { symfs: Some(root.into()), ..place.options() });
    let root = place.path("root");
    fs::create_dir(&root).unwrap();
    let key = place.key();
    assert_eq!(resolver(&root).unwrap().resolve(&key), Err(MissReason::NoSuchFile));
    place.write(&format!("root{}", place.path("x.so").display()), 2);
    assert_eq!(resolver(&root).unwrap().resolve(&key), found(2, IdSource::Symfs));
    let deleted = [key.name.as_slice(), b" (deleted)"].concat();
    assert_eq!(resolver(&root).unwrap().resolve(&DsoKey { name: deleted, ..key }), found(2, IdSource::Symfs));
    let e = resolver(&place.path("none")).unwrap_err();
    assert!(e.to_string().contains("cannot open the --symfs directory: No such file"), "{e}");
}

#[test]
fn symfs_has_the_kernel_and_its_modules_too() {
    let place = Place::new();
    let host = HostIdentity { osrelease: Some(b"5.4.9-x".to_vec()), ..other_host() };
    place.write("root/boot/vmlinux-5.4.9-x", 3);
    place.write("root/lib/modules/5.4.9-x/kernel/ext4.ko", 4);
    fs::write(place.path("root/lib/modules/5.4.9-x/modules.dep"), "kernel/ext4.ko:\n").unwrap();
    let symfs = Some(place.path("root"));
    let resolver = Resolver::new(ResolverOptions { symfs, host, ..place.options() }).unwrap();
    let kernel = DsoKey::new("[kernel.kallsyms]_text", DsoKind::Kernel);
    assert_eq!(resolver.resolve(&kernel), found(3, IdSource::Symfs));
    assert_eq!(resolver.resolve(&DsoKey::new("[ext4]", DsoKind::Module)), found(4, IdSource::Symfs));
    let by_path = DsoKey::new("/lib/modules/5.4.9-x/kernel/ext4.ko", DsoKind::Module);
    assert_eq!(resolver.resolve(&by_path), found(4, IdSource::Symfs));
    assert_eq!(resolver.resolve(&DsoKey::new("[xfs]", DsoKind::Module)), Err(MissReason::OtherMachine));
}

#[test]
fn the_cache_counts_only_where_it_leaves_no_doubt() {
    let place = Place::new();
    let path = place.path("x.so");
    let replaced = DsoKey { inode: place.key().inode + 1, ..place.key() };
    let resolver = place.resolver();
    // the cache knows the file that is there now, which is not the one recorded
    place.cached(&path, 1);
    assert_eq!(resolver.resolve(&replaced), Err(MissReason::InodeDiffers));
    // it knows two
    place.cached(&path, 2);
    assert_eq!(resolver.resolve(&replaced), Err(MissReason::InodeDiffers));
    fs::remove_file(&path).unwrap();
    assert_eq!(resolver.resolve(&replaced), Err(MissReason::NoSuchFile));
    let untold = DsoKey { inode: 0, ..replaced.clone() };
    assert_eq!(resolver.resolve(&untold), Err(MissReason::Ambiguous));
    // one of them is a link to the very file
    let linked = place.cached(&path, 3);
    let inode = fs::metadata(linked).unwrap().ino();
    assert_eq!(resolver.resolve(&DsoKey { inode, ..replaced.clone() }), found(3, IdSource::Cache));
    // it knows one, which need not be of the recorded inode either
    for n in [1, 3] {
        fs::remove_dir_all(place.path("cache").join(path.strip_prefix("/").unwrap()).join(id(n).to_string()))
            .unwrap();
    }
    assert_eq!(resolver.resolve(&replaced), Err(MissReason::NoSuchFile));
    assert_eq!(resolver.resolve(&untold), found(2, IdSource::Cache));
    // but two DSOs of the recording have the path
    let shared = DsoKey { name_is_shared: true, ..untold.clone() };
    assert_eq!(resolver.resolve(&shared), Err(MissReason::NoSuchFile));
    // or the process had other files altogether
    let container = DsoKey { mount_namespace: Some(1), ..untold };
    assert_eq!(resolver.resolve(&container), Err(MissReason::NoSuchFile));
}

#[test]
fn names_that_no_path_leads_to_have_their_reasons() {
    let place = Place::new();
    fs::write(place.path("script"), "#!/bin/sh\n").unwrap();
    fs::write(place.path("none"), TestElf { notes: vec![], ..TestElf::with_id(&[]) }.build()).unwrap();
    let of = |name: &str| place.resolver().resolve(&DsoKey::new(name, DsoKind::User));
    assert_eq!(of("//anon"), Err(MissReason::Anonymous));
    assert_eq!(of("/memfd:jit (deleted)"), Err(MissReason::Memfd));
    assert_eq!(of("/no/such/file (deleted)"), Err(MissReason::Deleted));
    assert_eq!(of(place.path("script").to_str().unwrap()), Err(MissReason::NotElf));
    assert_eq!(of(place.path("none").to_str().unwrap()), Err(MissReason::NoNote));
    assert_eq!(of(place.dir.path().to_str().unwrap()), Err(MissReason::NotAFile));
}

#[test]
fn the_running_system_answers_for_recordings_of_itself_alone() {
    let place = Place::new();
    let on = |host| Resolver::new(ResolverOptions { host, ..place.options() }).unwrap();
    let system = system::RunningSystem::default();
    let vdso = DsoKey::new("[vdso]", DsoKind::Vdso);
    let own = system.vdso().unwrap();
    assert_eq!(on(this_host()).resolve(&vdso), Ok(Found { id: own, source: IdSource::System }));
    assert_eq!(on(other_host()).resolve(&vdso), Err(MissReason::OtherMachine));
    let nameless = HostIdentity { hostname: None, ..this_host() };
    assert_eq!(on(nameless).resolve(&vdso), Err(MissReason::UnknownMachine));
    let rebooted = HostIdentity { osrelease: Some(b"2.6.32".to_vec()), ..this_host() };
    assert_eq!(on(rebooted).resolve(&vdso), Err(MissReason::OtherMachine));
    let narrow = DsoKey::new("[vdso32]", DsoKind::Vdso32);
    assert_eq!(on(this_host()).resolve(&narrow), Err(MissReason::Unavailable));

    let kernel = DsoKey::new("[kernel.kallsyms]_text", DsoKind::Kernel);
    match system.kernel() {
        Ok(id) => assert_eq!(on(this_host()).resolve(&kernel), Ok(Found { id, source: IdSource::System })),
        Err(reason) => assert_eq!(on(this_host()).resolve(&kernel), Err(reason)),
    }
    assert_eq!(on(other_host()).resolve(&kernel), Err(MissReason::OtherMachine));
    let module = DsoKey::new("[no_such_module]", DsoKind::Module);
    assert_eq!(on(this_host()).resolve(&module), Err(MissReason::NoSuchModule));
    assert_eq!(on(HostIdentity::default()).resolve(&module), Err(MissReason::UnknownMachine));
}

#[test]
fn another_machines_kernel_may_come_from_the_cache_but_ours_is_not_it() {
    let place = Place::new();
    let vdso = DsoKey::new("[vdso]", DsoKind::Vdso);
    let other = Resolver::new(ResolverOptions { host: other_host(), ..place.options() }).unwrap();
    let ours = place.path("cache/[vdso]").join(system::RunningSystem::default().vdso().unwrap().to_string());
    fs::create_dir_all(&ours).unwrap();
    assert_eq!(other.resolve(&vdso), Err(MissReason::OtherMachine));
    place.cached(Path::new("[vdso]"), 5);
    assert_eq!(other.resolve(&vdso), Err(MissReason::OtherMachine));
    fs::remove_dir(&ours).unwrap();
    assert_eq!(other.resolve(&vdso), found(5, IdSource::Cache));
    assert_eq!(place.resolver().resolve(&vdso), Err(MissReason::UnknownMachine));
    let kernel = DsoKey::new("[kernel.kallsyms]_stext", DsoKind::Kernel);
    place.cached(Path::new("[kernel.kallsyms]"), 6);
    assert_eq!(other.resolve(&kernel), found(6, IdSource::Cache));
}

#[test]
fn a_guests_files_are_not_the_hosts() {
    let place = Place::new();
    let path = place.path("x.so");
    let list = format!("{} {},{} [guest.kernel.kallsyms]", id(8), path.display(), id(7));
    let known = KnownBuildIds::from_list(list.as_bytes());
    let options = ResolverOptions { known, host: this_host(), force: true, ..place.options() };
    let mut resolver = Resolver::new(options).unwrap();
    let user = DsoKey { kind: DsoKind::GuestUser, ..place.key() };
    assert_eq!(resolver.resolve(&user), Err(MissReason::Guest));
    let kernel = DsoKey::new("[guest.kernel.kallsyms]", DsoKind::GuestKernel);
    assert_eq!(resolver.resolve(&kernel), found(7, IdSource::Known));
    resolver.recorded_mut().insert(true, false, path.as_os_str().as_bytes(), id(4));
    assert_eq!(resolver.resolve(&user), found(4, IdSource::Table));
}

#[test]
fn an_ambiguous_table_gives_way_to_the_file() {
    let place = Place::new();
    let mut resolver = place.resolver();
    for n in [4, 5] {
        resolver.recorded_mut().insert(false, false, place.path("x.so").as_os_str().as_bytes(), id(n));
    }
    assert_eq!(resolver.resolve(&place.key()), found(1, IdSource::File));
    let key = place.key();
    fs::remove_file(place.path("x.so")).unwrap();
    assert_eq!(resolver.resolve(&key), Err(MissReason::Ambiguous));
}

#[test]
fn many_are_answered_in_order_on_any_number_of_threads() {
    let place = Place::new();
    let key = |i: u32| {
        let name = format!("{}/many/{i}.so", place.dir.path().display());
        if !i.is_multiple_of(7) {
            place.write(&format!("many/{i}.so"), (i % 200) as u8 + 1);
        }
        DsoKey::new(name, DsoKind::User)
    };
    let keys: Vec<_> = (0..200).map(key).collect();
    let resolver = place.resolver();
    for threads in [0, 1, 2, 7, 1000] {
        let answers = resolver.resolve_many(&keys, threads);
        assert_eq!(answers.len(), keys.len());
        for (i, answer) in answers.into_iter().enumerate() {
            let here = found((i % 200) as u8 + 1, IdSource::File);
            assert_eq!(answer, if i.is_multiple_of(7) { Err(MissReason::NoSuchFile) } else { here });
        }
    }
    assert_eq!(resolver.resolve_many(&[], 4), []);
}

/// A process with a mount namespace in which another file (id 2) is at `x.so`; ends when its input does.
struct Container {
    child: std::process::Child,
    inode: u64,
}

impl Container {
    fn start(place: &Place) -> Option<Container> {
        place.write("image", 2);
        fs::create_dir(place.path("mnt")).unwrap();
        place.write("mnt/x.so", 1);
        let script = "mount -t tmpfs none \"$1/mnt\" && cp \"$1/image\" \"$1/mnt/x.so\" && stat -c %i \"$1/mnt/x.so\" && exec cat";
        let mut child = Command::new("unshare")
            .args(["-m", "--propagation", "private", "sh", "-c", script, "sh"])
            .arg(place.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        match line.trim().parse() {
            Ok(inode) => Some(Container { child, inode }),
            Err(_) => {
                child.wait().ok()?;
                None
            }
        }
    }

    fn end(mut self) {
        self.child.stdin.take().unwrap().flush().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_process_in_another_mount_namespace_has_its_own_files() {
    let place = Place::new();
    let Some(container) = Container::start(&place) else {
        eprintln!("skipped: mount namespaces are not permitted here");
        return;
    };
    let pid = container.child.id();
    let namespace = fs::metadata(format!("/proc/{pid}/ns/mnt")).unwrap().ino();
    let path = place.path("mnt/x.so");
    let key = DsoKey {
        inode: container.inode,
        pid: Some(pid),
        ..DsoKey::new(path.as_os_str().as_bytes(), DsoKind::User)
    };
    let on = |host| Resolver::new(ResolverOptions { host, ..place.options() }).unwrap();
    assert_eq!(on(HostIdentity::default()).resolve(&key), found(2, IdSource::ProcessRoot));
    let told = DsoKey { mount_namespace: Some(namespace), ..key.clone() };
    assert_eq!(on(this_host()).resolve(&told), found(2, IdSource::ProcessRoot));
    // another process has that pid now
    let reused = DsoKey { mount_namespace: Some(namespace + 1), ..key.clone() };
    assert_eq!(on(this_host()).resolve(&reused), Err(MissReason::InodeDiffers));
    // without an inode the pid must be this machine's
    let untold = DsoKey { inode: 0, ..key.clone() };
    assert_eq!(on(this_host()).resolve(&untold), found(2, IdSource::ProcessRoot));
    assert_eq!(on(HostIdentity::default()).resolve(&untold), Err(MissReason::OtherNamespace));
    // neither file
    let neither = DsoKey { inode: u64::MAX, ..key.clone() };
    assert_eq!(on(this_host()).resolve(&neither), Err(MissReason::InodeDiffers));
    // on another machine the pid is someone else's
    assert_eq!(on(other_host()).resolve(&key), Err(MissReason::InodeDiffers));

    container.end();
    let gone = DsoKey { inode: 0, mount_namespace: Some(namespace), ..key };
    assert_eq!(on(this_host()).resolve(&gone), Err(MissReason::OtherNamespace));
    let own = fs::metadata("/proc/self/ns/mnt").unwrap().ino();
    let ours = DsoKey { mount_namespace: Some(own), ..gone };
    assert_eq!(on(this_host()).resolve(&ours), found(1, IdSource::File));
}
