//! The mounted file system: the work of programs on it, and the data that remains when its server is killed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::direct::run_directly;
use crate::kill::{Seed, content, kill_round_count, number};
use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run};
use crate::tree::{assert_equal, unpack};

/// Returns true if this machine can mount file systems, and prints the reason if it cannot.
pub fn can_mount() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
    if !Path::new("/dev/fuse").exists() || !is_root {
        println!("skipped: this machine has no /dev/fuse, or this user is not root");
        return false;
    }
    true
}

/// Returns true if users other than root can mount on this machine, and prints the reason if they cannot.
pub fn can_users_mount() -> bool {
    let mode = fs::metadata("/dev/fuse").map_or(0, |it| std::os::unix::fs::MetadataExt::mode(&it));
    if mode & 0o006 != 0o006 {
        println!("skipped: /dev/fuse of this machine is closed to users other than root");
        return false;
    }
    can_mount()
}

/// Starts a server that mounts the file system `files` on `at`.
pub fn start(pool: &Path, at: &Path, more: &[&str]) -> Server {
    let at = at.to_str().expect("text");
    let server = Server::start(pool, &[&["--no-attach", "--mount", at][..], more].concat());
    assert!(server.lines.iter().any(|line| line.contains(&format!("mounted on {at}"))), "{:?}", server.lines);
    server
}

/// A pool and its mount point.
pub struct Place {
    pub folder: TempDir,
    pub pool: PathBuf,
    pub at: PathBuf,
}

impl Place {
    /// Returns a place in memory, or `None` if this machine cannot mount file systems.
    pub fn new() -> Option<Self> {
        Self::on(true)
    }

    /// Returns a place, in memory if `shm`, or `None` if this machine cannot mount file systems.
    pub fn on(shm: bool) -> Option<Self> {
        can_mount().then(|| folder(shm)).map(|folder| {
            let (pool, at) = (folder.path().join("pool"), folder.path().join("mnt"));
            Self { folder, pool, at }
        })
    }

    pub fn start(&self) -> Server {
        start(&self.pool, &self.at, &["--size", "384M", "--disk", "d=8M"])
    }
}

/// Returns the bytes that the pool's files use, once all freed space is returned.
pub fn used_bytes(pool: &Path) -> u64 {
    let stat = json(&["fs", "stat", pool.to_str().expect("text"), "files"]);
    let bytes = |name: &str| stat["space"][name].as_u64().unwrap_or_else(|| panic!("{stat}"));
    bytes("total_bytes") - bytes("free_bytes")
}

#[test]
fn a_tree_outlives_its_server_and_gives_its_space_back() {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    let server = start(&pool, &at, &["--size", "768M", "--disk", "d=8M"]);
    let before = used_bytes(&pool);
    unpack(&at);
    assert_equal(&at);
    server.interrupt();
    assert!(fs::read_dir(&at).expect("there").next().is_none(), "still mounted");
    let server = start(&pool, &at, &[]);
    assert_equal(&at);
    fs::remove_dir_all(at.join("include")).expect("removed");
    let freed = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        used_bytes(&pool) <= before + (2 << 20)
    });
    assert!(freed, "{before} bytes before, {} after all was removed", used_bytes(&pool));
    server.interrupt();
    assert_sound(&pool);
}

#[test]
fn file_systems_are_made_mounted_and_removed_beside_a_server() {
    let Some(Place { folder, pool: path, .. }) = Place::new() else { return };
    let pool = path.to_str().expect("text");
    let _server = Server::start(&path, &["--no-attach", "--size", "128M", "--disk", "d=8M"]);
    let points = ["one", "two"].map(|name| folder.path().join(name));
    for (name, point) in ["one", "two"].iter().zip(&points) {
        ok(&["fs", "create", pool, name]);
        ok(&["fs", "mount", pool, name, point.to_str().expect("text")]);
        fs::write(point.join("file"), name).expect("written");
    }
    assert_eq!(fs::read_to_string(points[0].join("file")).expect("read"), "one");
    let said = refused(ferrite().args(["fs", "mount", pool, "one", points[1].to_str().expect("text")]), 1);
    assert!(said.contains("mounted on"), "{said}");
    let said = refused(ferrite().args(["fs", "remove", pool, "one"]), 1);
    assert!(said.contains("unmount"), "{said}");
    let open = File::open(points[0].join("file")).expect("opened");
    let said = refused(ferrite().args(["fs", "unmount", pool, "one"]), 1);
    assert!(said.contains("in use by process"), "{said}");
    drop(open);
    for name in ["one", "two"] {
        ok(&["fs", "unmount", pool, name]);
        ok(&["fs", "remove", pool, name]);
    }
    assert_eq!(json(&["fs", "list", pool]), serde_json::json!([]));
    assert_sound(&path);
}

/// A file that is removed while it is open remains readable, and two mappings of one file see each other's stores. A
/// server that gets a signal names the program that keeps its mount in use.
#[test]
fn open_files_and_mappings_are_as_on_any_file_system() {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    let server = start(&pool, &at, &["--size", "128M", "--disk", "d=8M"]);
    let script = r#"
import mmap, os, sys
path = sys.argv[1] + "/mapped"
with open(path, "wb") as file: file.write(b"\0" * 8192)
child = os.fork()
file = open(path, "r+b")
view = mmap.mmap(file.fileno(), 8192)
if child == 0:
    view[5000:5005] = b"child"
    os._exit(0)
os.waitpid(child, 0)
assert view[5000:5005] == b"child"
view.flush()
assert open(path, "rb").read()[5000:5005] == b"child"
os.unlink(path)
view[0:3] = b"old"
view.flush()
file.seek(0)
assert file.read(3) == b"old"
with open(sys.argv[1] + "/log", "ab", buffering=0) as one, open(sys.argv[1] + "/log", "ab", buffering=0) as two:
    for i in range(100):
        one.write(b"1" * 10); two.write(b"2" * 10)
assert os.path.getsize(sys.argv[1] + "/log") == 2000
sparse = open(sys.argv[1] + "/sparse", "wb")
sparse.seek(8 << 40); sparse.write(b"end"); sparse.close()
assert os.stat(sys.argv[1] + "/sparse").st_blocks < 1000
"#;
    run(client("python3").arg("-c").arg(script).arg(&at));
    server.interrupt();
    assert_sound(&pool);
}

/// The file system itself stores the times, beyond the kernel's cache, also after late writes and later operations.
#[test]
fn times_are_those_that_stat_told_before() {
    const SCRIPT: &str = r#"
import json, os, sys, time
os.chdir(sys.argv[1])
def told():
    stats = {name: os.stat(name) for name in sorted(os.listdir("."))}
    return {name: [s.st_mtime_ns, s.st_ctime_ns, s.st_size] for name, s in stats.items()}
if sys.argv[2] == "look":
    print(json.dumps(told()))
    sys.exit()
after = {
    "closed": lambda name, fd: None,
    "synced": lambda name, fd: os.fsync(fd),
    "chmod": lambda name, fd: os.fchmod(fd, 0o600),
    "link": lambda name, fd: (os.link(name, "other"), os.unlink("other")),
    "rename": lambda name, fd: (os.rename(name, "other"), os.rename("other", name)),
    "xattr": lambda name, fd: os.setxattr(name, "user.a", b"1"),
    "utime": lambda name, fd: (os.utime(fd, ns=(5, 6)), os.pwrite(fd, b"more", 0)),
    "cut": lambda name, fd: os.ftruncate(fd, 100),
    "grown": lambda name, fd: os.ftruncate(fd, 100000),
}
files = {name: os.open(name, os.O_CREAT | os.O_RDWR) for name in after}
for name, fd in files.items(): os.write(fd, b"x" * 5000)
time.sleep(0.05)
for name, fd in files.items(): after[name](name, fd)
time.sleep(0.05)
for fd in files.values(): os.close(fd)
print(json.dumps(told()))
"#;
    for (shm, more) in [(true, &["--cached"][..]), (false, &["--cached"]), (true, &[]), (false, &[])] {
        let Some(Place { folder: _folder, pool, at }) = Place::on(shm) else { return };
        let describe = |what: &str| run(client("python3").args(["-c", SCRIPT]).arg(&at).arg(what));
        let server = start(&pool, &at, &[&["--size", "128M", "--disk", "d=8M"], more].concat());
        let before = describe("write");
        server.interrupt();
        let server = start(&pool, &at, more);
        assert_eq!(describe("look"), before, "{more:?} in shared memory: {shm}");
        server.interrupt();
    }
}

/// Runs pjdfstest, a program that checks the details of POSIX, by means of `runs`.
fn pjdfstest(runs: fn(&mut Command) -> String) {
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    // Other users of the suite need access to the folder.
    run(Command::new("chmod").arg("755").arg(folder.path()));
    let server = start(&pool, &at, &["--size", "256M", "--disk", "d=8M", "--allow-other"]);
    let settings = folder.path().join("settings.toml");
    let text = "[features]\nposix_fallocate = {}\nrename_ctime = {}\nutimensat = {}\nutime_now = {}\n\
                [settings]\nnaptime = 0.01\n[dummy_auth]\n\
                entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]\n";
    fs::write(&settings, text).expect("written");
    let describe = runs(client("pjdfstest").arg("-c").arg(settings).arg("-p").arg(&at));
    let sum = describe.lines().find(|line| line.starts_with("Summary")).unwrap_or_else(|| panic!("{describe}"));
    assert!(sum.contains(" 0 failed,"), "{sum}");
    println!("{sum}");
    server.interrupt();
    assert_sound(&pool);
}

#[test]
fn pjdfstest_finds_nothing() {
    pjdfstest(run);
}

#[test]
fn pjdfstest_finds_nothing_directly() {
    pjdfstest(run_directly);
}

/// Checks random reads, writes, mappings and truncations against their expected results, with the kernel's write-back
/// cache and without.
#[test]
fn fsx_finds_nothing() {
    for more in [&[][..], &["--cached"]] {
        let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
        let server = start(&pool, &at, &[&["--size", "128M", "--disk", "d=8M"][..], more].concat());
        let seed = number("FERRITE_SEED", 1).to_string();
        run(client("fsx").args(["-N", "3000", "-S", &seed]).arg(at.join("file")));
        server.interrupt();
        assert_sound(&pool);
    }
}

/// Writes files until a write fails or `stop` is set. Returns the numbers of the acknowledged files.
fn write_files(at: &Path, round: u64, needs_fsync: bool, stop: &AtomicBool) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let done = File::create(at.join(format!("r{round}-{number}"))).and_then(|mut file| {
            file.write_all(&content(round, number))?;
            if needs_fsync { file.sync_all() } else { Ok(()) }
        });
        if done.is_err() || stop.load(Ordering::Relaxed) {
            break;
        }
        acknowledged.push(number);
    }
    acknowledged
}

/// Acknowledged data is whole after `kill -9`: in memory from the return of the write, in a file from the return of
/// fsync.
fn kill_rounds(shm: bool, rounds: u64) {
    let seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let mut random = Seed(seed);
    let Some(Place { folder: _folder, pool, at }) = Place::on(shm) else { return };
    let mut server = Some(start(&pool, &at, &["--size", "256M", "--disk", "d=8M"]));
    let mut total = 0;
    for round in 0..rounds {
        let wait = Duration::from_millis(5 + random.below(200));
        let stop = AtomicBool::new(false);
        let serving = server.take().expect("one serves");
        let acknowledged = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_files(&at, round, !shm, &stop));
            std::thread::sleep(wait);
            serving.kill();
            stop.store(true, Ordering::Relaxed);
            writer.join().expect("the writer ends")
        });
        total += acknowledged.len();
        server = Some(start(&pool, &at, &[]));
        for number in acknowledged {
            let file = at.join(format!("r{round}-{number}"));
            let found = fs::read(&file).unwrap_or_else(|error| panic!("round {round}: {}: {error}", file.display()));
            assert!(found == content(round, number), "round {round}: file {number} was acknowledged and is not whole");
        }
        for file in fs::read_dir(&at).expect("listed").flatten() {
            fs::remove_file(file.path()).expect("removed");
        }
        assert_sound(&pool);
    }
    println!("{rounds} kills, {total} acknowledged files, none lost");
    assert!(total > 0, "nothing was ever acknowledged, so nothing was proven");
}

#[test]
fn kill_rounds_lose_no_file_on_memory() {
    kill_rounds(true, kill_round_count());
}

#[test]
fn kill_rounds_lose_no_fsynced_file_on_a_file() {
    kill_rounds(false, kill_round_count());
}
