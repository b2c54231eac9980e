//! Other processes: this test program again, playing a part, so that they can be stopped and killed.

#![allow(unsafe_code)] // A child is forked that runs no program of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use super::*;

const PART: &str = "FERRITE_OWNER_TEST_PART";

/// A process that plays a part, killed when dropped.
pub(super) struct Other {
    process: Child,
}

impl Other {
    /// Starts `part` on `words`, and returns when it has said that it is ready.
    pub fn plays(part: &str, words: &[&str]) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "tests::role::play", "--nocapture", "--test-threads=1"])
            .env(PART, [&[part], words].concat().join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        assert!(lines.map_while(|line| line.ok()).any(|line| line.ends_with("ready")), "{part} did not get ready");
        Self { process }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Stops it by signal, and returns when its last thread stands still.
    pub fn stop(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.pid());
        let stands = |task: std::io::Result<fs::DirEntry>| {
            let stat = fs::read_to_string(task.expect("task").path().join("stat")).expect("stat");
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        while !fs::read_dir(&tasks).expect("tasks").all(stands) {
            std::thread::yield_now();
        }
    }

    /// Sends the signal called `name`.
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(kill.expect("kill").success());
    }

    pub fn kill(mut self) {
        self.end();
    }

    /// Kills it, and returns when it has ended; what it started lives on until this is dropped.
    pub fn kill_alone(&self) {
        let process = PidFd::open(self.pid()).expect("it lives");
        self.signal("KILL");
        while process.is_alive() {
            std::thread::yield_now();
        }
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the other process runs; in this one it does nothing.
#[test]
fn play() {
    let Ok(part) = std::env::var(PART) else { return };
    let words: Vec<&str> = part.lines().collect();
    let path = PathBuf::from(words[1]);
    let stay = || {
        println!("\nready");
        // Until we are killed, or the test that wants us has gone.
        let _ = std::io::stdin().read(&mut [0]);
    };
    let bytes = |word: &str| word.split(' ').map(|byte| byte.parse().expect("a byte")).collect::<Vec<u8>>();
    match words[0] {
        "hold" => {
            let _lock = ours(claim(&path).expect("claim"));
            stay();
        }
        "own" => {
            let lock = ours(claim(&path).expect("claim"));
            let _listening = ListeningSocket::start(&lock, Obedient::new().0).expect("listen");
            stay();
        }
        // With a child that lives on when this one is killed.
        "fork" => {
            let _lock = ours(claim(&path).expect("claim"));
            let mut byte = 0_u8;
            let (mut has_begun, begun) = std::io::pipe().expect("a pipe");
            // SAFETY: the child makes system calls alone.
            if unsafe { libc::fork() } == 0 {
                // SAFETY: the byte is a local; it is waited for until the test that wants this has gone.
                unsafe {
                    libc::write(begun.as_raw_fd(), (&raw const byte).cast(), 1);
                    libc::read(0, (&raw mut byte).cast(), 1);
                    libc::_exit(0);
                }
            }
            // By then it has let go of what children do not have.
            has_begun.read_exact(&mut [0]).expect("it begins");
            stay();
        }
        // Connected by a descriptor that a program it started has too, and keeps.
        "leave" => {
            let mut socket = UnixStream::connect(path).expect("connect");
            socket.write_all(&bytes(words[2])).expect("send");
            let mut child = Command::new("cat").stdout(OwnedFd::from(socket)).spawn().expect("cat");
            stay();
            let _ = child.wait();
        }
        "send" => {
            let mut socket = UnixStream::connect(path).expect("connect");
            socket.write_all(&bytes(words[2])).expect("send");
            stay();
        }
        other => panic!("no part called {other}"),
    }
}
