//! What the mount's invariants promise, looked at by programs from outside and by the file system from inside; each with a
//! mistake planted that its test finds. Only children touch the mount: this process serves it.

mod backlog;
mod beside;
mod bugs;
mod cut_off;
mod folder;
mod lost;
mod names;
mod panics;
mod removed;
mod reserve;
mod rights;
mod session_end;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferrite_fs::{
    Credentials, DataMode, FileKind, FileSystem, FsOptions, FsSpec, Ino, ListedEntry, NewFile, SetAttr, Time,
};
use ferrite_memory::planted::{PlantedBug, plant_in_process, plant_in_process_with};
use ferrite_memory::{MapOptions, Mapped};

use super::folder::MountFolder;
use super::{KIND, MountOptions, Mounted, NotUnmounted};
pub(crate) use bugs::Bug;
use ferrite_fuse::is_root;

/// How long the kernel may take to forget.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the clock of the file system says.
const CLOCK: Time = Time(2_000_000_000);

/// How often the kernel asked to open a file.
static OPENS: AtomicU32 = AtomicU32::new(0);
/// How often it asked to write.
static WRITES: AtomicU32 = AtomicU32::new(0);
/// How often it asked to make a folder durable.
static SETTLINGS: AtomicU32 = AtomicU32::new(0);

/// Counts a look-up of `name` by the kernel.
pub(super) fn note_lookup(name: &OsStr) {
    names::count(name);
}

/// Looks at entries that are about to be held and told.
pub(super) fn note_listed(fs: &FileSystem, dir: Ino, listed: &[ListedEntry]) {
    names::meet_listed(fs, dir, listed);
}

/// Plants `bug` in the threads of the mount, and counts the kernel's requests.
fn plant(bug: Option<Bug>) -> Vec<PlantedBug> {
    let is = move |other: Bug| bug == Some(other);
    let counted = |count: &'static AtomicU32, bug: Bug| {
        plant_in_process_with(bug.name(), move || {
            count.fetch_add(1, Ordering::Relaxed);
            is(bug)
        })
    };
    let written = plant_in_process_with(Bug::KeptBack.name(), move || {
        WRITES.fetch_add(1, Ordering::Relaxed);
        panics::meet_write();
        is(Bug::KeptBack)
    });
    let step = plant_in_process_with("mount: step", || {
        panics::meet_step();
        false
    });
    let mut planted =
        vec![counted(&OPENS, Bug::OpenAnswered), counted(&SETTLINGS, Bug::SettlingAnswered), written, step];
    planted.extend(bug.map(|bug| plant_in_process(bug.name())));
    planted
}

/// A new file system in memory.
fn file_system(data: DataMode) -> Arc<FileSystem> {
    let memory = Mapped::anonymous(32 << 20, &MapOptions::default()).expect("memory");
    let spec =
        FsSpec { super_threshold_bytes: None, uid: 0, gid: 0, mode: 0o777, hash_seed: 3, now: Time(1_000_000_000) };
    let options = FsOptions { data: Some(data), read_only: false, clock: Arc::new(|| CLOCK) };
    FileSystem::alone(Arc::new(memory), &spec, options).expect("a file system")
}

/// A mounted file system that is gone with the test.
struct World {
    fs: Arc<FileSystem>,
    folder: tempfile::TempDir,
    mounted: Option<Mounted>,
    planted: Vec<PlantedBug>,
    bug: Option<Bug>,
    _alone: MutexGuard<'static, ()>,
}

impl World {
    /// One with `bug` planted; none where nothing can be mounted.
    fn new(bug: Option<Bug>) -> Option<Self> {
        Self::with(bug, DataMode::Sync)
    }

    fn with(bug: Option<Bug>, data: DataMode) -> Option<Self> {
        Self::mounted(bug, data, false)
    }

    fn mounted(bug: Option<Bug>, data: DataMode, cached: bool) -> Option<Self> {
        // Mistakes are planted for the whole process.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_root() || std::fs::metadata("/dev/fuse").is_err() {
            println!("skipped: this machine has no /dev/fuse, or this user is not root");
            return None;
        }
        OPENS.store(0, Ordering::Relaxed);
        SETTLINGS.store(0, Ordering::Relaxed);
        WRITES.store(0, Ordering::Relaxed);
        let planted = plant(bug);
        let fs = file_system(data);
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Mounted::start(&fs, folder.path(), &World::how(cached)).expect("it is mounted");
        Some(Self { fs, folder, mounted: Some(mounted), planted, bug, _alone: alone })
    }

    fn how(cached: bool) -> MountOptions {
        let source = "test".into();
        MountOptions { source, cached, allow_other: true, reserve_percent: 20, threads: 2, ..MountOptions::default() }
    }

    /// Looks at the mount when `script`, run in it, has said a line; it goes on then.
    fn amid<T>(&self, script: &str, look: impl FnOnce(&str) -> T) -> T {
        let within = format!("cd {} && {script}", self.folder.path().display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &within]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("the shell runs");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut said).expect("it says a line");
        let seen = look(said.trim());
        drop(child.stdin.take());
        child.wait().expect("it ends");
        seen
    }

    /// What the shell says of `script`, run in the mount.
    fn sh(&self, script: &str) -> Output {
        let within = format!("cd {} && {script}", self.folder.path().display());
        Command::new("timeout").args(["20", "sh", "-c", &within]).output().expect("the shell runs")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.planted.clear();
        let mut mounted = self.mounted.take().expect("mounted until now");
        if mounted.unmount().is_err() {
            // What dropping it does is all that is left.
            drop(mounted);
        }
    }
}

/// Finds out whether the invariant holds in a world with `bug`; true where there can be none.
fn holds(bug: Option<Bug>, look: fn(&World) -> bool) -> bool {
    World::new(bug).is_none_or(|world| look(&world))
}

/// Asserts that what `look` looks at holds, and that it sees `bug`.
fn assert_guarded(bug: Bug, look: fn(&World) -> bool) {
    assert!(holds(None, look), "it does not hold");
    if World::new(None).is_some() {
        assert!(!holds(Some(bug), look), "{bug:?} was planted and not found");
    }
}

/// A file without a name exists as long as a program has it open, and no longer.
#[test]
fn fm1_what_the_kernel_was_told_of_lives_until_it_forgets() {
    assert_guarded(Bug::NotHeld, |world| {
        let before = world.fs.statfs().inodes;
        let script = "echo kept > f && exec 3< f && rm f && echo gone && read line";
        let (said, open) = world.amid(script, |said| (said.to_owned(), world.fs.statfs().inodes));
        // The kernel says some time after the last close that it has forgotten.
        let until = Instant::now() + PATIENCE;
        while world.fs.statfs().inodes > before && Instant::now() < until {
            std::thread::yield_now();
        }
        said == "gone" && open == before + 1 && world.fs.statfs().inodes == before
    });
}

/// What `write` returned for is in the file system, which a crash of everything but its memory leaves.
#[test]
fn fm2_a_write_that_returned_is_in_the_file_system() {
    assert_guarded(Bug::KeptBack, |world| {
        world.sh("printf written > f");
        let mut bytes = [0; 7];
        let ino = world.fs.lookup(Ino::ROOT, b"f").expect("it was made").ino;
        world.fs.read(ino, 0, &mut bytes).is_ok_and(|len| len == 7 && &bytes == b"written")
    });
}

/// A round trip at each opening would cost more than reading a small file.
#[test]
fn fm4_opening_is_asked_for_once() {
    assert_guarded(Bug::OpenAnswered, |world| {
        world.sh("echo a > f; echo a > g");
        (0..3).for_each(|_| drop(world.sh("cat f g > /dev/null")));
        OPENS.load(Ordering::Relaxed) <= 1
    });
}

/// A program that creates a file safely syncs its folder too.
#[test]
fn fm4_making_a_folder_durable_is_asked_for_once() {
    assert_guarded(Bug::SettlingAnswered, |world| {
        let said = world.sh("echo a > f && sync . && mv f g && sync . && sync .");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        SETTLINGS.load(Ordering::Relaxed) <= 1
    });
}

/// It begins and ends within pages that the kernel has not read.
#[test]
fn fm6_a_write_that_is_all_or_nothing_is_one_request() {
    let writes = |bug| {
        let world = World::with(bug, DataMode::Atomic)?;
        world.sh("truncate -s 1M f && perl -e 'open F, \"+<\", \"f\"; sysseek F, 5000, 0; syswrite F, \"x\" x 20000'");
        let mut bytes = [0; 20_001];
        let ino = world.fs.lookup(Ino::ROOT, b"f").expect("it was made").ino;
        world.fs.read(ino, 5000, &mut bytes).expect("read");
        assert!(bytes[..20_000].iter().all(|byte| *byte == b'x') && bytes[20_000] == 0);
        Some(WRITES.load(Ordering::Relaxed))
    };
    let Some(count) = writes(None) else { return };
    assert_eq!(count, 1);
    assert!(writes(Some(Bug::Split)).is_some_and(|count| count > 1), "the kernel splits it");
}

/// What was given before there was no more is the file's, and may be taken from it.
#[test]
fn what_an_allocation_took_that_failed_is_told() {
    let Some(world) = World::new(None) else { return };
    let said = world.sh("truncate -s 31M f; stat -c %b f; fallocate -l 31M f; stat -c %b f");
    assert!(String::from_utf8_lossy(&said.stderr).contains("No space"), "{said:?}");
    let bytes = world.fs.lookup(Ino::ROOT, b"f").expect("there").allocated_bytes;
    assert!(bytes > 4 << 20, "{bytes}");
    assert_eq!(String::from_utf8_lossy(&said.stdout), format!("0\n{}\n", bytes / 512));
}

/// The kernel sends bytes without times here, and times later; the clock of the file system stands still before.
#[test]
fn fm7_what_the_kernel_writes_late_changes_no_times() {
    const SCRIPT: &str = "perl -e '$| = 1; open F, \"+<\", \"f\" or die $!; syswrite F, \"late\"; \
        syscall(277, fileno F, 0, 0, 7) == 0 or die $!; print \"sent\\n\"; <STDIN>'";
    let keeps = |bug| {
        let world = World::mounted(bug, DataMode::Sync, true)?;
        world.sh("printf soon > f && sync f");
        let ino = world.fs.lookup(Ino::ROOT, b"f").expect("it was made").ino;
        let mut bytes = [0; 4];
        let attr = world.amid(SCRIPT, |_| {
            world.fs.read_unnoted(ino, 0, &mut bytes).expect("it reads");
            world.fs.getattr(ino).expect("it is there")
        });
        assert_eq!(&bytes, b"late");
        Some(attr.mtime > CLOCK && attr.ctime > CLOCK)
    };
    let Some(keeps_them) = keeps(None) else { return };
    assert!(keeps_them);
    assert_eq!(keeps(Some(Bug::Restamped)), Some(false), "it was planted and not found");
}

/// A change of attributes takes effect, even if the kernel sends the time of the change.
#[test]
fn fm7_times_are_those_that_the_kernel_tells() {
    let Some(world) = World::mounted(None, DataMode::Sync, true) else { return };
    world.sh("printf soon > f && sync f && touch -d @5 f && ln f g && chmod 600 g");
    let attr = world.fs.lookup(Ino::ROOT, b"f").expect("it was made");
    assert_eq!(attr.mtime, Time(5_000_000_000));
    assert!(attr.ctime > CLOCK, "the file system's own clock is not asked");
}

/// Some of it fits.
#[test]
fn fm8_what_the_kernel_kept_back_and_has_no_space_is_told() {
    let is_told = |bug| {
        let world = World::mounted(bug, DataMode::Sync, true)?;
        let new = NewFile { kind: FileKind::File, mode: 0o644, umask: 0, rdev: 0, by: Credentials::default() };
        let large = world.fs.create_file(Ino::ROOT, b"large", &new).expect("made").ino;
        let mut size = 0;
        while let Ok(written) = world.fs.write(large, size, &[1; 1 << 18]) {
            size += written as u64;
        }
        let set = SetAttr { size: Some((size - (1 << 18)) & !4095), ..SetAttr::default() };
        world.fs.setattr(large, &set).expect("cut");
        let said = world.sh("dd if=/dev/zero of=f bs=1M count=1 conv=fsync");
        let ino = world.fs.lookup(Ino::ROOT, b"f").expect("made").ino;
        assert!((1 << 16..1 << 19).contains(&world.fs.getattr(ino).expect("there").size), "some of it fits");
        Some(String::from_utf8_lossy(&said.stderr).contains("No space left"))
    };
    let Some(is_heard) = is_told(None) else { return };
    assert!(is_heard);
    assert_eq!(is_told(Some(Bug::ShortWriteBack)), Some(false), "it was planted and not found");
}

/// It has the answer to the cut, which came while most pages were there.
#[test]
fn fm12_what_still_shrinks_is_not_believed() {
    assert_guarded(Bug::Believed, |world| {
        world.sh("dd if=/dev/zero of=f bs=1M count=16 && stat f");
        let cut = world.sh("truncate -s 1000 f && stat -c %b f");
        let ino = world.fs.lookup(Ino::ROOT, b"f").expect("made").ino;
        let until = Instant::now() + PATIENCE;
        while world.fs.getattr(ino).expect("there").is_shrinking && Instant::now() < until {
            std::thread::yield_now();
        }
        let sectors = |said: Output| String::from_utf8_lossy(&said.stdout).trim().parse::<u64>().expect("a number");
        let sectors = [cut, world.sh("stat -c %b f")].map(sectors);
        sectors[1] * 512 == world.fs.getattr(ino).expect("there").allocated_bytes
    });
}

/// The kernel's own file systems do the same. Programs that set ACLs depend on it.
#[test]
fn attributes_are_set_and_removed_as_elsewhere() {
    const SCRIPT: &str = "sub said { my ($what, $done) = @_; print $what, $done == 0 ? \"ok\" : 0 + $!, \"\\n\" } \
        $f = \"f\"; $a = \"user.a\"; $b = \"user.b\"; $v = \"1\"; \
        said(\"set \", syscall(188, $f, $a, $v, 1, 0)); \
        said(\"both \", syscall(188, $f, $a, $v, 1, 3)); \
        said(\"both \", syscall(188, $f, $b, $v, 1, 3)); \
        for (\"system.posix_acl_access\", \"system.posix_acl_default\", $b) { $n = $_; said(\"remove \", syscall(197, $f, $n)) }";
    let Some(world) = World::new(None) else { return };
    let said = world.sh(&format!("echo > f && perl -e '{SCRIPT}'"));
    let (out, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let (exists, none) = (libc::EEXIST, libc::ENODATA);
    assert_eq!(out, format!("set ok\nboth {exists}\nboth {none}\nremove ok\nremove ok\nremove {none}\n"), "{errors}");
}

/// Root or the user who mounted it may unmount it. A mount that appears there later belongs to another server.
#[test]
fn what_was_unmounted_by_hand_is_unmounted() {
    for then in ["", " && mount -t tmpfs other $0"] {
        let Some(mut world) = World::new(None) else { return };
        let point = world.folder.path().to_path_buf();
        let script = format!("umount $0{then}");
        let done = Command::new("sh").args(["-c", &script]).arg(&point).status().expect("the shell runs");
        assert!(done.success(), "{script}");
        let mounted = world.mounted.as_mut().expect("mounted until then");
        assert!(mounted.has_ended() && mounted.unmount().is_ok());
        let is_others = Command::new("mountpoint").arg("-q").arg(&point).status().expect("it runs").success();
        assert_eq!(is_others, !then.is_empty(), "{script}");
        if is_others {
            assert!(Command::new("umount").arg(&point).status().expect("it runs").success());
        }
    }
}

/// Programs that work in it would go on in the folder below.
#[test]
fn what_has_a_copy_stays_where_it_is() {
    let Some(mut world) = World::new(None) else { return };
    let (point, copy) = (world.folder.path().to_path_buf(), tempfile::tempdir().expect("a folder"));
    let run = |program: &mut Command| program.status().expect("it runs").success();
    assert!(run(Command::new("mount").arg("--bind").args([point.as_path(), copy.path()])));
    let refused = world.mounted.as_mut().expect("mounted until then").unmount();
    let is_there = run(Command::new("mountpoint").arg("-q").arg(&point));
    assert!(run(Command::new("umount").arg(copy.path())));
    assert!(matches!(refused, Err(NotUnmounted::Busy(who)) if who[0].contains("a copy of the mount on")) && is_there);
    assert!(world.mounted.as_mut().expect("mounted").unmount().is_ok());
}
