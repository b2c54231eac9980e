//! Disks as files that programs map (AF1 to AF5 of `cached_file`, AH1 and AH2 of `attached_file`).

use std::env;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use ferrite_devnode::{AttachedFile, Error, FileOptions, FileOwner, check_files, clear_stale};
use ferrite_disk::Disk;
use ferrite_memory::planted::plant;

use crate::killed::Victim;
use crate::ram::{Asked, Fault, RamDisk};
use crate::stand::Stand;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// A program that maps a file and answers lines: `store PAGE BYTE`, `msync`, `fsync`, `close` (of its descriptor). An
/// answer is 0 or the error's number.
const MAPPER: &str = r"
import mmap, os, sys
try:
    f = os.open(sys.argv[1], os.O_RDWR)
    m = mmap.mmap(f, 0)
    print(0, flush=True)
except OSError as error:
    print(error.errno, flush=True)
    sys.exit()
for line in sys.stdin:
    word, *numbers = line.split()
    answer = 0
    try:
        if word == 'store':
            page, byte = map(int, numbers)
            m[page * 4096:(page + 1) * 4096] = bytes([byte]) * 4096
        elif word == 'msync':
            m.flush()
        elif word == 'fsync':
            os.fsync(f)
        else:
            os.close(f)
    except OSError as error:
        answer = error.errno
    print(answer, flush=True)
";

/// The mapping program. It is killed when dropped.
struct Mapper {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Mapper {
    /// Starts the program on `path` as the user `uid`; returns the error's number if it cannot map the file.
    fn start(path: &Path, uid: u32) -> Result<Self, i32> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("/usr/bin/env");
        command.args(["python3", "-c", MAPPER]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.uid(uid).current_dir("/").env("PATH", "/usr/bin:/bin").spawn().expect("python starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut mapper = Self { child, lines };
        match mapper.answer() {
            0 => Ok(mapper),
            number => Err(number),
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("it reads");
    }

    fn answer(&mut self) -> i32 {
        self.lines.next().expect("it answers").expect("text").parse().expect("a number")
    }

    fn ask(&mut self, line: &str) -> i32 {
        self.say(line);
        self.answer()
    }

    fn pid(&self) -> String {
        format!("process {}", self.child.id())
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns `None`, and prints the reason, if the machine mounts no files.
fn stand() -> Option<Stand> {
    if let Err(error) = check_files() {
        eprintln!("skipped: {error}");
        return None;
    }
    Stand::new()
}

fn options(stand: &Stand) -> FileOptions {
    let owner = FileOwner { uid: 0, gid: 0 };
    FileOptions { name: "g".into(), directory: stand.places(), path: None, owner, threads: 2 }
}

fn attach(stand: &Stand, disk: &Arc<RamDisk>) -> AttachedFile {
    AttachedFile::new(Arc::clone(disk) as _, &options(stand)).expect("attached")
}

fn page_of(disk: &RamDisk, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    disk.read(page * PAGE, &mut bytes).expect("read");
    bytes
}

/// AF1: msync does not return before the disk's flush, which begins after the writes.
#[test]
fn af1_stores_are_on_the_disk_when_msync_returns() {
    let Some(stand) = stand() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = attach(&stand, &disk);
    assert_eq!(attached.path(), stand.places().join("g/file"));
    let mut mapper = Mapper::start(attached.path(), 0).expect("mapped");
    for page in [0, 1000, 4095] {
        assert_eq!(mapper.ask(&format!("store {page} 7")), 0);
    }
    disk.shut_flush();
    mapper.say("msync");
    disk.await_flush();
    let before = disk.asked();
    assert!(before.iter().all(|one| matches!(one, Asked::Write(_))), "{before:?}");
    for page in [0, 1000, 4095] {
        assert!(page_of(&disk, page) == [7; PAGE as usize], "page {page} is written before the flush begins");
    }
    disk.open_flush();
    assert_eq!(mapper.answer(), 0);
    assert_eq!(disk.asked(), [Asked::Flush]);
    assert_eq!((mapper.ask("close"), mapper.ask("store 3 8"), mapper.ask("msync")), (0, 0, 0));
    assert!(page_of(&disk, 3) == [8; PAGE as usize]);
    drop(mapper);
    attached.detach().expect("unused");
    attached.detach().expect("a second detach does nothing");
    stand.assert_clean();
}

/// AF2, by the kernel: a page that could not be stored makes every flush fail, until it is stored.
#[test]
fn af2_a_full_disk_makes_every_flush_fail() {
    let Some(stand) = stand() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = attach(&stand, &disk);
    let mut mapper = Mapper::start(attached.path(), 0).expect("mapped");
    // The faults are those of reads too, so the page is in the kernel's cache first.
    assert_eq!((mapper.ask("store 2048 9"), mapper.ask("fsync")), (0, 0));
    disk.fail_at(8 * MIB, Fault::NoSpace);
    assert_eq!(mapper.ask("store 2048 1"), 0);
    for word in ["msync", "fsync", "fsync"] {
        assert_eq!(mapper.ask(word), libc_number("ENOSPC"), "{word}");
    }
    disk.fail_at(u64::MAX, Fault::NoSpace);
    assert_eq!((mapper.ask("store 9 1"), mapper.ask("fsync")), (0, libc_number("ENOSPC")), "the page is lost still");
    assert_eq!((mapper.ask("store 2048 2"), mapper.ask("fsync")), (0, 0));
    assert!(page_of(&disk, 2048) == [2; PAGE as usize]);
    disk.fail_at(8 * MIB, Fault::Io(5));
    assert_eq!((mapper.ask("store 2048 3"), mapper.ask("msync")), (0, libc_number("EIO")));
    drop(mapper);
    let Err(Error::Lost { bytes, .. }) = attached.detach() else { panic!("the lost page is not told") };
    assert_eq!(bytes, PAGE);
    stand.assert_clean();
}

fn libc_number(name: &str) -> i32 {
    match name {
        "ENOSPC" => 28,
        "EIO" => 5,
        "EBUSY" => 16,
        "EACCES" => 13,
        _ => panic!("{name}"),
    }
}

/// AF3: programs set times and owners, and no other size. A program that shortens the file is refused.
#[test]
fn af3_attributes_change_but_for_the_size() {
    let Some(stand) = stand() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = attach(&stand, &disk);
    let program = r"
import os, sys
f = os.open(sys.argv[1], os.O_RDWR)
os.utime(f, (5, 7))
os.fchown(f, 0, 0)
os.fchmod(f, 0o640)
os.ftruncate(f, 16 << 20)
os.pwrite(f, b'x' * 4096, 4096)
os.fsync(f)
assert os.fstat(f).st_size == 16 << 20 and os.fstat(f).st_mode == 0o100640
for size in [0, 4096, 17 << 20]:
    try:
        os.ftruncate(f, size)
        sys.exit('the size changed')
    except PermissionError:
        pass
";
    crate::stand::run("python3", &["-c", program, &crate::stand::text(attached.path())]);
    assert!(page_of(&disk, 1) == [b'x'; PAGE as usize]);
    attached.detach().expect("unused");
    stand.assert_clean();
}

/// AF4: a second writer is refused, a reader is not, and a killed writer has left when the next one comes.
#[test]
fn af4_a_second_writer_is_refused() {
    let Some(stand) = stand() else { return };
    let mut attached = attach(&stand, &Arc::new(RamDisk::new(16 * MIB)));
    let mut first = Mapper::start(attached.path(), 0).expect("mapped");
    assert_eq!(first.ask("close"), 0, "the mapping is enough");
    assert_eq!(Mapper::start(attached.path(), 0).err(), Some(libc_number("EBUSY")));
    crate::stand::run("cmp", &["-n", "4096", &crate::stand::text(attached.path()), "/dev/zero"]);
    for _ in 0..20 {
        drop(first);
        first = Mapper::start(attached.path(), 0).expect("the killed one has left");
    }
    drop(first);
    attached.detach().expect("unused");
    stand.assert_clean();
}

/// AH2: detaching names the program, also one that has only the mapping.
fn is_kept_while_mapped() -> bool {
    let Some(stand) = stand() else { return true };
    let mut attached = attach(&stand, &Arc::new(RamDisk::new(16 * MIB)));
    let mut mapper = Mapper::start(attached.path(), 0).expect("mapped");
    let mut is_kept = true;
    for word in ["fsync", "close"] {
        assert_eq!(mapper.ask(word), 0);
        let refused = attached.detach();
        is_kept &=
            matches!(&refused, Err(Error::Busy { who, .. }) if who.iter().any(|one| one.starts_with(&mapper.pid())));
        if !is_kept {
            return false;
        }
        assert_eq!(mapper.ask("store 1 1"), 0, "it goes on");
    }
    drop(mapper);
    attached.detach().expect("unused");
    stand.assert_clean();
    is_kept
}

#[test]
fn ah2_a_mapped_file_stays_and_its_program_is_named() {
    assert!(is_kept_while_mapped());
}

#[test]
fn canary_ah2_a_file_that_is_detached_in_use_is_found() {
    let _bug = plant("devnode: a file in use is detached");
    assert!(!is_kept_while_mapped());
}

/// A server that ends writes what programs have stored, also without a flush of theirs. Then they get errors.
#[test]
fn af1_a_server_that_ends_keeps_what_was_stored() {
    let Some(stand) = stand() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = attach(&stand, &disk);
    let mut mapper = Mapper::start(attached.path(), 0).expect("mapped");
    assert_eq!(mapper.ask("store 5 9"), 0);
    attached.end().expect("written");
    assert!(page_of(&disk, 5) == [9; PAGE as usize]);
    assert_eq!(disk.asked().last(), Some(&Asked::Flush));
    assert_ne!(mapper.ask("fsync"), 0, "the file is gone");
    drop(mapper);
    stand.assert_clean();
}

/// AH1, AT4: a killed server ends at once while a program maps its file, and the next one clears the rest.
#[test]
fn ah1_a_killed_server_ends_and_the_next_one_clears_its_file() {
    let Some(stand) = stand() else { return };
    let mut victim = Victim::start(&stand, "file");
    let path = victim.device();
    let mut mapper = Mapper::start(&path, 0).expect("mapped");
    assert_eq!((mapper.ask("store 1 1"), mapper.ask("msync"), mapper.ask("store 2 2")), (0, 0, 0));
    victim.kill();
    assert_ne!(mapper.ask("fsync"), 0, "the program is told");
    let mut next = AttachedFile::new(Arc::new(RamDisk::new(16 * MIB)), &options(&stand)).expect("attached");
    assert!(next.notes().iter().any(|note| note.contains("unmounted the dead")), "{:?}", next.notes());
    let mut second = Mapper::start(next.path(), 0).expect("the dead one's file is another");
    assert_eq!((second.ask("store 1 1"), second.ask("fsync")), (0, 0));
    drop((mapper, second));
    next.detach().expect("unused");
    stand.assert_clean();
}

/// AH1: a server that was killed after it made its file and before it mounted it.
#[test]
fn ah1_a_file_that_was_never_mounted_is_cleared() {
    let Some(stand) = stand() else { return };
    let place = stand.places().join("g");
    fs::create_dir_all(&place).expect("made");
    for name in ["lock", "file"] {
        fs::write(place.join(name), "").expect("written");
    }
    clear_stale(&stand.places());
    stand.assert_clean();
}

/// AH1: as AT2, at any point of attaching and detaching.
#[test]
fn ah1_killed_at_any_point_it_dies_and_is_cleared() {
    let Some(stand) = stand() else { return };
    let rounds = env::var("FERRITE_ROUNDS").map_or(12, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let victim = Victim::start(&stand, "file-cycle");
        sleep(Duration::from_micros(round * 7919 % 60_000));
        victim.kill();
        let message = clear_stale(&stand.places()).join("\n");
        assert!(!message.contains("could not"), "{message}");
        stand.assert_clean();
    }
}

/// The file is where the caller names it, for the user that the caller names, and an empty file gives its place.
#[test]
fn a_named_file_is_for_its_user_and_hides_nothing() {
    let Some(stand) = stand() else { return };
    let home = stand.directory.path().join("vm");
    fs::create_dir(&home).expect("made");
    for folder in [stand.directory.path(), &home] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("its own");
    }
    let at = |name: &str| home.join(name);
    let try_at = |path: PathBuf| {
        let owner = FileOwner { uid: 65534, gid: 65534 };
        let options = FileOptions { path: Some(path), owner, ..options(&stand) };
        AttachedFile::new(Arc::new(RamDisk::new(16 * MIB)), &options)
    };
    fs::write(at("full"), "x").expect("written");
    symlink("full", at("link")).expect("made");
    for name in ["full", "link", "."] {
        let refused = try_at(at(name));
        assert!(matches!(refused, Err(Error::FileTaken { .. } | Error::Io { .. })), "{name}: {refused:?}");
        assert!(!stand.places().exists(), "nothing stays behind");
    }
    fs::write(at("empty"), "").expect("written");
    for name in ["empty", "new"] {
        let mut attached = try_at(at(name)).expect("attached");
        assert!(matches!(try_at(at(name)), Err(Error::Held { .. })), "a second one is refused");
        assert_eq!(Mapper::start(attached.path(), 65533).err(), Some(libc_number("EACCES")), "another user");
        let mut mapper = Mapper::start(attached.path(), 65534).expect("its user");
        assert_eq!((mapper.ask("store 1 1"), mapper.ask("msync")), (0, 0));
        drop(mapper);
        attached.detach().expect("unused");
        assert!(!at(name).exists(), "the place is free again");
    }
    assert_eq!(fs::read(at("full")).expect("read"), b"x");
}
