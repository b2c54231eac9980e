//! Programs under `ferrite run`: killing or stopping a program, or the pool's owner, harms no stored data.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::direct::{direct, python, run_directly};
use crate::kill::{Seed, kill_round_count, number};
use crate::mount::{Place, can_mount, start};
use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, run, signal, wait};

/// A program that writes in place and appends until it is killed, and prints its progress.
const WRITER: &str = include_str!("direct/writer.py");
/// A program that checks what the writer wrote, given the progress that the writer printed last.
const READER: &str = include_str!("direct/reader.py");
/// A program that goes on writing and appending while owners of the pool are killed.
const SURVIVOR: &str = include_str!("direct/survivor.py");

/// A running program that prints its progress as a number.
struct Writer {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    told: u64,
}

impl Writer {
    fn start(program: &Command) -> Self {
        Self::of(&mut direct(program, &[]))
    }

    fn of(program: &mut Command) -> Self {
        let mut child = program.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut writer = Self { child, lines, told: 0 };
        writer.comes_to(1);
        writer
    }

    /// Waits until the program has printed `more` further numbers.
    fn comes_to(&mut self, more: u64) {
        for _ in 0..more {
            let line = self.lines.next().expect("it writes on").expect("text");
            self.told = line.parse().expect("a number");
        }
    }

    /// Returns the last number that the program printed before its end. Panics if it does not end within a minute.
    fn ended(mut self) -> u64 {
        wait(&mut self.child, Duration::from_secs(60));
        assert!(self.child.try_wait().is_ok_and(|status| status.is_some()), "it hangs");
        while let Some(Ok(line)) = self.lines.next() {
            self.told = line.parse().expect("a number");
        }
        self.told
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn assert_kept(place: &Place, told: u64) {
    run(python(READER, &place.at).arg(told.to_string()));
}

/// Runs rounds that let [`WRITER`] work for a random time and then call `what`, which returns the server.
fn rounds(what: impl Fn(&Place, Server, Writer) -> Server) {
    let Some(place) = Place::new() else { return };
    let seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let (mut server, mut random) = (place.start(), Seed(seed));
    for _ in 0..kill_round_count() {
        let mut writer = Writer::start(&python(WRITER, &place.at));
        writer.comes_to(random.below(25));
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        server = what(&place, server, writer);
        run(client("rm").arg("-f").arg(place.at.join("places")).arg(place.at.join("log")));
    }
    server.interrupt();
    assert_sound(&place.pool);
}

/// A client that is killed at any moment loses no acknowledged write, and leaves no lock that keeps other clients
/// waiting.
#[test]
fn killed_clients_lose_nothing_in_kill_rounds() {
    rounds(|place, server, mut writer| {
        writer.child.kill().expect("killed");
        assert_kept(place, writer.ended());
        server
    });
}

/// A stopped client does not block other programs from its files.
#[test]
fn stopped_clients_keep_nobody_away() {
    rounds(|place, server, mut writer| {
        signal(writer.child.id(), "STOP");
        assert_kept(place, writer.told);
        let log = place.at.join("log");
        std::fs::write(&log, "short").expect("cut and written");
        assert_eq!(std::fs::read(&log).expect("read"), b"short");
        std::fs::remove_file(place.at.join("places")).expect("removed");
        signal(writer.child.id(), "CONT");
        writer.comes_to(3);
        server
    });
}

/// A stopped owner does not keep an unrelated program from starting.
#[test]
fn a_stopped_owner_keeps_no_program_from_starting() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    signal(server.pid(), "STOP");
    let mut child = ferrite().args(["run", "--", "true"]).current_dir("/").spawn().expect("ferrite starts");
    let ended = wait(&mut child, Duration::from_secs(8));
    signal(server.pid(), "CONT");
    assert_eq!(ended, Some(0), "it waited for an answer");
}

/// The owner is killed under a client. The client fails and does not hang, and its acknowledged writes are kept.
#[test]
fn a_killed_owner_fails_its_clients_and_loses_nothing_in_kill_rounds() {
    rounds(|place, server, writer| {
        server.kill();
        let told = writer.ended();
        assert_sound(&place.pool);
        let server = place.start();
        assert_kept(place, told);
        server
    });
}

/// The owner is killed while programs write to one file, through the kernel and under `ferrite run`. The owner and the
/// programs may then wait for each other in the kernel. The next owner still starts.
#[test]
fn an_owner_that_was_killed_makes_way_for_the_next_in_kill_rounds() {
    const APPENDER: &str = "import os, sys\nf = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n\
        while True: os.write(f, b'x' * 1500)";
    let Some(place) = Place::new() else { return };
    let seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let (mut server, mut random) = (place.start(), Seed(seed));
    for _ in 0..kill_round_count() {
        let plain = python(APPENDER, &place.at.join("shared"));
        let start = |mut command: Command| command.stderr(Stdio::null()).spawn().expect("it starts");
        let mut writers: Vec<Child> = (0..2).map(|_| start(direct(&plain, &[]))).collect();
        writers.extend((0..3).map(|_| start(python(APPENDER, &place.at.join("shared")))));
        std::thread::sleep(Duration::from_millis(300 + random.below(500)));
        // The test does not wait for the killed server, because it may not end before the next server has cut it off.
        signal(server.pid(), "KILL");
        let next = place.start();
        drop(std::mem::replace(&mut server, next));
        for mut writer in writers {
            writer.kill().and_then(|()| writer.wait()).expect("it ends");
        }
        run(client("rm").arg("-f").arg(place.at.join("shared")));
    }
    server.interrupt();
    assert_sound(&place.pool);
}

/// Returns the number of direct calls, which programs count for `--stat` in the file `tally`.
fn direct_calls(tally: &Path) -> u64 {
    let bytes = std::fs::read(tally).expect("read");
    bytes.chunks(64).map(|line| u64::from_le_bytes(*line.first_chunk().expect("8 bytes"))).sum()
}

/// In each round, the owner is killed and restarted under running clients that share a file. Each client finds all its
/// writes, and writes directly again.
#[test]
fn clients_go_on_with_the_next_owner_in_kill_rounds() {
    let Some(place) = Place::new() else { return };
    let seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let (mut server, mut random) = (place.start(), Seed(seed));
    let tally = place.pool.with_extension("tally");
    std::fs::write(&tally, [0; 4096]).expect("written");
    let survivor = |number: u64| {
        let mut program = direct(python(SURVIVOR, &place.at).arg(number.to_string()), &[]);
        Writer::of(program.env("FERRITE_RUN_TALLY", &tally))
    };
    let mut clients: Vec<Writer> = (0..3).map(survivor).collect();
    // There are more sessions than a pool has client slots, so the gate runs all of these rounds.
    for _ in 0..number("FERRITE_ROUNDS", 24) {
        clients.iter_mut().for_each(|client| client.comes_to(1 + random.below(5)));
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        server.kill();
        server = place.start();
    }
    // Clients may need a while to acquire their grants again.
    let before = direct_calls(&tally);
    let is_direct = |clients: &mut Vec<Writer>| {
        clients.iter_mut().for_each(|client| client.comes_to(5));
        direct_calls(&tally) > before + 640
    };
    assert!((0..2000).any(|_| is_direct(&mut clients)), "nothing is written directly any more");
    drop(clients);
    server.interrupt();
    assert_sound(&place.pool);
}

/// Writes to a file and sleeps. Closes the file when stdin has a line.
const SLEEPER: &str = r#"
import os, sys
fd = os.open(sys.argv[1] + "/" + sys.argv[2], os.O_RDWR | os.O_CREAT)
for i in range(50): os.pwrite(fd, b"x" * 4096, 4096 * i)
print(0, flush=True)
for _ in sys.stdin: print(os.dup2(0, fd), flush=True)
"#;

/// Clients that are idle when the owner is killed withhold no space from the next owner.
#[test]
fn sleeping_clients_keep_no_space_from_the_next_owner() {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    let begin = || start(&pool, &at, &["--size", "64M", "--no-disk"]);
    let (server, much) = (begin(), at.join("much"));
    let sleeper = |name| Writer::of(direct(python(SLEEPER, &at).arg(name), &[]).stdin(Stdio::piped()));
    let mut sleepers = ["one", "two"].map(sleeper);
    std::fs::write(&much, vec![1; 44 << 20]).expect("room");
    std::fs::remove_file(&much).expect("removed");
    server.kill();
    writeln!(sleepers[0].child.stdin.as_mut().expect("piped"), "close").expect("told");
    sleepers[0].comes_to(1);
    let server = begin();
    std::fs::write(&much, vec![1; 44 << 20]).expect("room");
    drop(sleepers);
    server.interrupt();
    assert_sound(&pool);
}

/// Holds an unlinked file open, prints its inode number, and continues to use the descriptor when stdin ends.
const HOLDER: &str = r#"
import os, sys, time
fd = os.open(sys.argv[1] + "/held", os.O_RDWR | os.O_CREAT)
for i in range(100): os.pwrite(fd, b"held", 0)
os.unlink(sys.argv[1] + "/held")
print(os.fstat(fd).st_ino, flush=True)
sys.stdin.read()
def fails(call, *arguments):
    try: call(fd, *arguments)
    except OSError: return True
def all_fail():
    time.sleep(0.02)
    return fails(os.pwrite, b"strange", 0) and fails(os.pread, 7, 0)
print(int(all([all_fail() for _ in range(100)])), flush=True)
"#;

/// LD8: the next owner reuses the inode number of a deleted file. The old descriptor never reaches the new file.
#[test]
fn a_descriptor_of_a_mount_that_is_gone_is_no_other_file() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let mut program = direct(&python(HOLDER, &place.at), &[]);
    let mut holder = Writer::of(program.stdin(Stdio::piped()));
    server.kill();
    let server = place.start();
    let files: Vec<_> = (0..500).map(|number| place.at.join(format!("new{number}"))).collect();
    files.iter().for_each(|file| std::fs::write(file, "another file").expect("written"));
    let has_number = |file| std::fs::metadata(file).expect("there").ino() == holder.told;
    assert!(files.iter().any(has_number), "its number was not given out again");
    drop(holder.child.stdin.take());
    assert_eq!(holder.ended(), 1, "not all calls failed");
    assert!(files.iter().all(|file| std::fs::read(file).is_ok_and(|content| content == b"another file")));
    server.interrupt();
    assert_sound(&place.pool);
}

const SYNCS: &str = r#"
import ctypes, os, sys
fd = os.open(sys.argv[1] + "/" + sys.argv[2], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"synced")
if sys.argv[2] == "sync": os.sync()
else: assert ctypes.CDLL(None).syncfs(os.open(sys.argv[1], os.O_RDONLY)) == 0
"#;

/// On a pool in a plain file, data is durable at a sync. The kernel passes only the sync of a single file to the
/// server.
#[test]
fn syncs_of_all_files_reach_the_server() {
    if !can_mount() {
        return;
    }
    let (folder, at) = (folder(false), folder(true));
    let (pool, at) = (folder.path().join("pool"), at.path().join("mnt"));
    for how in ["sync", "syncfs"] {
        let server = start(&pool, &at, &["--size", "128M", "--disk", "d=8M"]);
        run_directly(python(SYNCS, &at).arg(how));
        server.kill();
        let server = start(&pool, &at, &[]);
        assert_eq!(std::fs::read(at.join(how)).expect("there"), b"synced", "{how}");
        server.interrupt();
    }
    assert_sound(&pool);
}

/// Writes without making the data durable. Prints the result of syncing the file system, before and after a line of
/// stdin.
const UNSYNCED: &str = r#"
import ctypes, os, sys
fd = os.open(sys.argv[1] + "/unsynced", os.O_WRONLY | os.O_CREAT)
os.write(fd, b"x" * 5000)
def tell(): print(abs(ctypes.CDLL(None).syncfs(fd)), flush=True)
print(0, flush=True)
for _ in sys.stdin: tell()
"#;

/// If a killed owner had not persisted its data, no sync succeeds, neither without a server nor under the next owner.
#[test]
fn a_sync_without_the_server_of_the_mount_fails() {
    if !can_mount() {
        return;
    }
    let (folder, at) = (folder(false), folder(true));
    let (pool, at) = (folder.path().join("pool"), at.path().join("mnt"));
    let server = start(&pool, &at, &["--size", "128M", "--disk", "d=8M"]);
    let mut program = Writer::of(direct(&python(UNSYNCED, &at), &[]).stdin(Stdio::piped()));
    let mut input = program.child.stdin.take().expect("piped");
    let mut synced = |program: &mut Writer| {
        writeln!(input, "sync").expect("told");
        program.comes_to(1);
        program.told == 0
    };
    assert!(synced(&mut program), "the server lives");
    server.kill();
    assert!(!synced(&mut program), "nobody serves");
    let server = start(&pool, &at, &[]);
    assert!(!synced(&mut program), "another one serves");
    drop(program);
    server.interrupt();
    assert_sound(&pool);
}

const OVERWRITES: &str = r#"
import os, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR)
for i in range(100): os.pwrite(fd, b"mine", 0)
"#;

/// LD8: in a mount namespace, the pool's path leads to another pool, which has a file of the same inode number.
#[test]
fn a_file_is_not_worked_on_in_another_pool() {
    let [Some(one), Some(other)] = [Place::new(), Place::new()] else { return };
    let places = [one, other];
    let servers = places.each_ref().map(Place::start);
    let files = places.each_ref().map(|place| place.at.join("file"));
    let numbers = files.each_ref().map(|file| {
        std::fs::write(file, "none").expect("written");
        std::fs::metadata(file).expect("there").ino()
    });
    assert_eq!(numbers[0], numbers[1]);
    let program = direct(&python(OVERWRITES, &places[0].at), &["--stat", "--json"]);
    for (pool, is_direct) in [(&places[0].pool, true), (&places[1].pool, false)] {
        let mut within = client("unshare");
        within.args(["-m", "sh", "-ec", "mount --bind $0 $1; shift; exec \"$@\""]).args([pool, &places[0].pool]);
        let output = within.arg(program.get_program()).args(program.get_args()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let counts: serde_json::Value = serde_json::from_str(said.lines().last().expect("counts")).expect("counts");
        assert_eq!(counts["direct"]["calls"].as_u64() > Some(0), is_direct, "{counts}");
        let content = files.each_ref().map(|file| std::fs::read(file).expect("read"));
        assert_eq!(content, [b"mine", b"none"]);
    }
    for (server, place) in servers.into_iter().zip(&places) {
        server.interrupt();
        assert_sound(&place.pool);
    }
}

/// Stores to the pool's mapping, as a program does by mistake.
const STRAY: &str = r#"
import ctypes, os, re, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
for i in range(100): os.pwrite(fd, b"x" * 4096, i * 4096)
mapped = [line for line in open("/proc/self/maps") if line.rstrip().endswith("/pool") and " rw-s " in line]
at, end = (int(part, 16) for part in mapped[0].split()[0].split("-"))
print("stores", flush=True)
for at in range(at, end, 4096): ctypes.memset(at, 0xff, 4096)
"#;

/// If a client stores to the mapping by mistake, the store ends the client and changes no data.
#[test]
fn stray_stores_of_a_client_are_held_off() {
    let has_keys = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" pku"));
    if !has_keys {
        return println!("skipped: this processor has no protection keys");
    }
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let output = direct(&python(STRAY, &place.at), &[]).output().expect("it starts");
    assert_eq!((&output.stdout[..], output.status.signal()), (&b"stores\n"[..], Some(libc::SIGSEGV)), "{output:?}");
    assert!(std::fs::read(place.at.join("file")).expect("there") == [b'x'; 409_600]);
    server.interrupt();
    assert_sound(&place.pool);
}
