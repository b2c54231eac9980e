//! An owner that is killed while a thread of it waits in the kernel for a page that a program reads, which waits for the
//! owner: neither comes to its end until who comes next cuts the mount off.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::direct::python;
use crate::mount::{can_mount, start};
use crate::programs::{client, ferrite};
use crate::server::{folder, refused, run, signal, wait};

/// Owns a pool and serves a mount with one file whose reads it never answers.
const SERVER: &str = include_str!("deaf/server.py");
/// A user that is not root.
const USER: u32 = 4711;

/// Such an owner, that waits; and a program that waits for it.
struct Deaf {
    _folder: TempDir,
    pool: PathBuf,
    at: PathBuf,
    connection: u64,
    server: Child,
    reader: Child,
}

impl Deaf {
    /// One of `user`, started with `more` words, where file systems can be mounted.
    fn start(user: u32, more: &[&str]) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let folder = folder(true);
        let (pool, at) = (folder.path().join("pool"), folder.path().join("mnt"));
        std::fs::create_dir(&at).expect("made");
        run(ferrite().args(["pool", "create", "--size", "64M"]).arg(&pool));
        [folder.path(), &pool].iter().for_each(|path| chown(path, Some(user), None).expect("given"));
        let mut server = python(SERVER, &at);
        let mut server =
            server.arg(&pool).arg(user.to_string()).args(more).stdout(Stdio::piped()).spawn().expect("runs");
        let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
        let mut says = |what| assert_eq!(lines.next().expect("it says something").expect("text"), what);
        says("mounted");
        let connection = u64::from(libc::minor(std::fs::metadata(&at).expect("it answers").dev()));
        let mut reader = client("cat");
        let reader = reader.arg(at.join("file")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        says("forgets");
        std::thread::sleep(Duration::from_millis(100));
        Some(Self { _folder: folder, pool, at, connection, server, reader })
    }

    /// Kills it; a thread of it is left and sleeps on.
    fn kill(&mut self) {
        self.server.kill().expect("killed");
        assert_eq!(wait(&mut self.server, Duration::from_millis(300)), None);
        assert!(self.is_left() && self.threads().contains(&"D".into()), "no thread waits: {:?}", self.threads());
    }

    fn is_left(&mut self) -> bool {
        self.server.try_wait().expect("a child of ours").is_none()
    }

    fn threads(&self) -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.server.id())).into_iter().flatten().flatten();
        let told = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        told.filter_map(|stat| Some(stat.rsplit_once(") ")?.1[..1].to_owned())).collect()
    }

    /// It has come to its end, and so has the program that waited for it.
    fn assert_ended(&mut self) {
        wait(&mut self.server, Duration::from_secs(5));
        assert!(!self.is_left(), "it hangs: {:?}", self.threads());
        assert_eq!(wait(&mut self.reader, Duration::from_secs(5)), Some(1), "nobody answers");
    }

    /// Any command.
    fn list(&self) -> Command {
        let mut list = ferrite();
        list.args(["fs", "list"]).arg(&self.pool);
        list
    }
}

impl Drop for Deaf {
    /// Nothing of it may be left on the machine, whatever was found.
    fn drop(&mut self) {
        let _ = self.server.kill();
        wait(&mut self.server, Duration::from_millis(300));
        if self.is_left() {
            let _ = within_fusectl(&format!("echo 1 > /sys/fs/fuse/connections/{}/abort", self.connection)).output();
        }
        let _ = self.server.wait();
        let _ = self.reader.wait();
        while client("umount").arg("-l").arg(&self.at).output().is_ok_and(|output| output.status.success()) {}
    }
}

/// A shell that runs `script` where `fusectl` is mounted.
fn within_fusectl(script: &str) -> Command {
    let mut shell = client("unshare");
    let script = format!("mount -t fusectl none /sys/fs/fuse/connections; {script}");
    shell.args(["-m", "sh", "-c", &script]);
    shell
}

/// It is cut off wherever its mount is, and nothing else is.
#[test]
fn a_killed_owner_that_waits_makes_way() {
    for away in ["", "umount -l \"$0\"", "mount -t tmpfs none \"$0\""] {
        let Some(mut deaf) = Deaf::start(0, &[]) else { return };
        run(client("sh").args(["-ec", away]).arg(&deaf.at));
        deaf.kill();
        run(&mut deaf.list());
        deaf.assert_ended();
        let is_over = std::fs::metadata(&deaf.at).is_ok_and(|it| u64::from(libc::minor(it.dev())) != deaf.connection);
        assert_eq!(is_over, !away.is_empty(), "after {away:?}");
    }
}

/// Who is not root may cut off what is their own.
#[test]
fn its_user_cuts_a_killed_owner_off() {
    let Some(mut deaf) = Deaf::start(USER, &[]) else { return };
    deaf.kill();
    let as_user = format!("exec setpriv --reuid {USER} --clear-groups {}", shell_words(&deaf.list()));
    run(&mut within_fusectl(&as_user));
    deaf.assert_ended();
}

fn shell_words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| format!("'{}' ", word.to_str().expect("text"))).collect()
}

/// Also where only its mount is in the way: it is taken away, or something else mounted there.
#[test]
fn what_a_killed_owner_that_waits_had_mounted_is_taken_away() {
    let Some(mut deaf) = Deaf::start(0, &[]) else { return };
    deaf.kill();
    run(ferrite().args(["fs", "unmount"]).arg(&deaf.at));
    deaf.assert_ended();
    let Some(mut deaf) = Deaf::start(0, &[]) else { return };
    deaf.kill();
    let other = deaf.pool.with_extension("other");
    start(&other, &deaf.at, &["--size", "64M", "--no-disk"]).interrupt();
    deaf.assert_ended();
}

/// One that is stopped, and one whose first thread has ended, live.
#[test]
fn an_owner_that_lives_is_not_cut_off() {
    for (how, word) in [("STOP", "headless"), ("STOP", ""), ("CONT", "headless")] {
        let Some(mut deaf) = Deaf::start(0, &[word]) else { return };
        signal(deaf.server.id(), how);
        refused(&mut deaf.list(), 1);
        signal(deaf.server.id(), "CONT");
        run(client("timeout").args(["10", "stat", "-f"]).arg(&deaf.at));
        assert!(deaf.is_left() && deaf.reader.try_wait().expect("a child").is_none(), "{how} {word}");
    }
}
