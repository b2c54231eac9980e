//! Other processes: this test program again, playing a part, so that they can be stopped and killed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
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
            .args(["--exact", "owner::tests::role::play", "--nocapture", "--test-threads=1"])
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
    match words[0] {
        "hold" => {
            let _lock = ours(claim(&path).expect("claim"));
            stay();
        }
        "own" => {
            let lock = ours(claim(&path).expect("claim"));
            let _listening = lock.listen(Obedient::new().0).expect("listen");
            stay();
        }
        "send" => {
            let mut socket = UnixStream::connect(path).expect("connect");
            let bytes: Vec<u8> = words[2].split(' ').map(|byte| byte.parse().expect("a byte")).collect();
            socket.write_all(&bytes).expect("send");
            stay();
        }
        other => panic!("no part called {other}"),
    }
}
