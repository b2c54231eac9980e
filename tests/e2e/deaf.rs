//! A killed owner with a thread in the kernel that waits for a program's page, while the program waits for the owner.
//! Neither ends until the next process cuts off the mount.

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

/// The script of an owner that mounts one file and never answers its reads.
const SERVER: &str = include_str!("deaf/server.py");
/// The id of a user that is not root.
const USER: u32 = 4711;

/// An owner that hangs in the kernel, and a program that waits for it.
struct Deaf {
    _folder: TempDir,
    pool: PathBuf,
    at: PathBuf,
    connection: u64,
    server: Child,
    reader: Child,
}

impl Deaf {
    /// Starts an owner of `user` with `more` arguments. Returns `None` if this machine cannot mount file systems.
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

    /// Kills the owner. One of its threads remains and sleeps in the kernel.
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
        let message = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        message.filter_map(|stat| Some(stat.rsplit_once(") ")?.1[..1].to_owned())).collect()
    }

    /// Asserts that the owner and the program that waited for it have ended.
    fn assert_ended(&mut self) {
        wait(&mut self.server, Duration::from_secs(5));
        assert!(!self.is_left(), "it hangs: {:?}", self.threads());
        assert_eq!(wait(&mut self.reader, Duration::from_secs(5)), Some(1), "nobody answers");
    }

    /// Returns a command that needs the pool.
    fn list(&self) -> Command {
        let mut list = ferrite();
        list.args(["fs", "list"]).arg(&self.pool);
        list
    }
}

impl Drop for Deaf {
    /// Removes everything that the owner left on the machine, whether the test passed or failed.
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

/// Returns a shell that runs `script` with `fusectl` mounted.
fn within_fusectl(script: &str) -> Command {
    let mut shell = client("unshare");
    let script = format!("mount -t fusectl none /sys/fs/fuse/connections; {script}");
    shell.args(["-m", "sh", "-c", &script]);
    shell
}

/// The next process cuts off the owner's mount wherever the mount is, and cuts off no other mount.
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

/// A user other than root may cut off their own mount.
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

/// If only the dead owner's mount is in the way, `fs unmount` removes it, or `up` mounts another file system there.
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

/// An owner is alive if it is stopped, or if its first thread has ended.
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
