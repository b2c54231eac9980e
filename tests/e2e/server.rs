//! A running `ferrite up`, and helpers for commands beside it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::programs::{client, ferrite};

/// Returns a folder for a test, in memory if `shm`.
pub fn folder(shm: bool) -> TempDir {
    let at = if shm { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("ferrite-test-").tempdir_in(at).expect("a folder")
}

/// A server that ends when dropped.
pub struct Server {
    child: Child,
    /// The lines that the server printed at its start.
    pub lines: Vec<String>,
    pub pool: PathBuf,
}

impl Server {
    /// Starts `ferrite up --pool POOL` with `more` arguments and waits until it serves. The server mounts nothing
    /// unless `more` names a folder.
    pub fn start(pool: &Path, more: &[&str]) -> Self {
        let mut command = ferrite();
        command.arg("up").arg("--pool").arg(pool).args(more);
        command.args((!more.contains(&"--mount")).then_some("--no-mount"));
        Self::of(&mut command, pool, "Ctrl-C ends it.")
    }

    /// Starts `command` and waits for a line that starts with `ready`.
    pub fn of(command: &mut Command, pool: &Path, ready: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("ferrite starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = Vec::new();
        for line in output.lines() {
            lines.push(line.expect("text"));
            if lines.last().is_some_and(|line| line.contains(ready)) {
                return Self { child, lines, pool: pool.into() };
            }
        }
        let status = child.wait().expect("ended");
        panic!("{command:?} ended with {status} before it served: {lines:?}");
    }

    /// Starts `ferrite` with `words` and `--json` and waits for the line that reports the served disks.
    pub fn start_as_program(words: &[&str]) -> Self {
        Self::of(ferrite().args(words).arg("--json"), Path::new(""), "\"disks\"")
    }

    /// Returns that line as JSON.
    pub fn told(&self) -> serde_json::Value {
        assert_eq!(self.lines.len(), 1, "one line: {:?}", self.lines);
        serde_json::from_str(&self.lines[0]).unwrap_or_else(|error| panic!("{error} in {:?}", self.lines))
    }

    /// Returns the stable link to the `/dev` node of the disk called `name`.
    pub fn node(&self, name: &str) -> PathBuf {
        let link = PathBuf::from(format!("/dev/ferrite/{name}"));
        assert!(link.exists(), "{name} is not attached: {:?}", self.lines);
        link
    }

    /// Returns the NBD address of the disk called `name`.
    pub fn uri(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}.nbd", self.pool.display())
    }

    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server like `kill -9`.
    pub fn kill(mut self) {
        self.end_at_once();
    }

    /// Kills the server. The server may wait in the kernel for a program that waits for the server; the next server
    /// resolves that.
    fn end_at_once(&mut self) {
        self.child.kill().expect("killed");
        wait(&mut self.child, Duration::from_secs(5));
        if self.child.try_wait().expect("a child of ours").is_none() {
            let _ = ferrite().args(["fs", "list"]).arg(&self.pool).output();
        }
        self.child.wait().expect("reaped");
    }

    /// Returns the lines of the server's piped standard error, up to the line that contains `word`. Only one call per
    /// server works.
    pub fn said_until(&mut self, word: &str) -> String {
        let mut lines = BufReader::new(self.child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let mut said = String::new();
        while !said.contains(word) {
            let line = lines.next().unwrap_or_else(|| panic!("it never said {word:?}: {said}"));
            said = said + &line + "\n";
        }
        // Later output must not meet a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        said
    }

    /// Waits for the end of a server that already got a signal, and returns its exit status.
    pub fn ended(mut self) -> Option<i32> {
        wait(&mut self.child, Duration::from_secs(60))
    }

    /// Ends the server like Ctrl-C, and asserts that its exit status is 0.
    pub fn interrupt(mut self) {
        signal(self.pid(), "INT");
        let status = wait(&mut self.child, Duration::from_secs(60));
        assert_eq!(status, Some(0), "after Ctrl-C");
    }

    /// Sends a second Ctrl-C, late enough that the server does not merge it with the first.
    pub fn interrupt_again(&self) {
        std::thread::sleep(Duration::from_millis(400));
        signal(self.pid(), "INT");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            signal(self.pid(), "TERM");
            if wait(&mut self.child, Duration::from_secs(30)).is_none() {
                self.end_at_once();
            }
        }
    }
}

/// A small file system, unmounted when dropped.
pub struct SmallHost(PathBuf);

impl SmallHost {
    /// Mounts a tmpfs of `size` in the folder `at`, or returns `None` if this user may not mount.
    pub fn new(at: &Path, size: &str) -> Option<Self> {
        Self::mounted(at.join("small"), client("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]))
    }

    /// Mounts an ext4 of `size` in a file, or returns `None` if this user may not mount.
    pub fn of_ext4(at: &Path, size: &str) -> Option<Self> {
        let image = at.join("image");
        run(client("truncate").args(["-s", size]).arg(&image));
        run(client("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        Self::mounted(at.join("ext4"), client("mount").args(["-o", "loop"]).arg(&image))
    }

    fn mounted(point: PathBuf, command: &mut Command) -> Option<Self> {
        std::fs::create_dir(&point).expect("made");
        let mounted = command.arg(&point).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(point));
        }
        println!("skipped: only root mounts a small file system");
        None
    }

    /// Returns the folder of the mount.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        let _ = client("umount").arg("-l").arg(&self.0).output();
    }
}

/// Returns the exit status if the child ends in time.
pub fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Sends a signal by name. After STOP, waits until no thread of the process runs.
pub fn signal(pid: u32, name: &str) {
    run(Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()));
    while name == "STOP" && !is_stopped(pid) {
        std::thread::yield_now();
    }
}

fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    threads.flatten().all(|thread| {
        // The state is behind the name, which is in parentheses. A thread that has ended meanwhile has no file. One that
        // waits in the kernel (D) stops behind that.
        let status = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        status.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['T', 't', 'D', 'Z', 'X']))
    })
}

/// Runs `command`, which must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `command`, which must fail with exit status `status`, and returns its messages.
pub fn refused(command: &mut Command, status: i32) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert_eq!(output.status.code(), Some(status), "{command:?}: {}", text(&output));
    text(&output)
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs `ferrite` with `words`, which must succeed, and returns its output.
pub fn ok(words: &[&str]) -> String {
    run(ferrite().args(words))
}

/// Returns the JSON report of `ferrite` with `words` and `--json`.
pub fn json(words: &[&str]) -> serde_json::Value {
    let text = run(ferrite().args(words).arg("--json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error} in {text}"))
}

/// Asserts that `ferrite pool check` finds no error.
pub fn assert_sound(pool: &Path) {
    let report = json(&["pool", "check", pool.to_str().expect("text")]);
    let findings = report["findings"].as_array().unwrap_or_else(|| panic!("{report}"));
    assert!(findings.iter().all(|finding| finding["severity"] == "note"), "{report}");
}

/// Returns true if this machine can make nodes, and prints the reason if it cannot.
pub fn can_attach() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
    let lacks = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|device| !Path::new(device).exists());
    match (is_root, lacks) {
        (true, None) => true,
        (false, _) => {
            println!("skipped: only root makes /dev nodes");
            false
        }
        (true, Some(device)) => {
            println!("skipped: this machine has no {device}");
            false
        }
    }
}
