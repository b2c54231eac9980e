//! The program `ferrite` as scripts meet it: the exit status of each command, the first line of its message, and the
//! keys of its JSON. 0 is done, 1 failed, 2 wrong usage.

mod faults;
mod interrupted;
mod json;
mod messages;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A folder in which every command runs, so that paths in messages are short.
struct Workshop(TempDir);

impl Workshop {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("ferrite-cli-").tempdir_in("/dev/shm").expect("a folder"))
    }

    /// Makes a folder with a pool `pool` of 32 MiB, a disk `d` of 1 MiB in it, and a file `image` of 1 MiB.
    fn with_pool() -> Self {
        let workshop = Self::new();
        workshop.ok("pool create pool --size 32M");
        workshop.ok("disk create pool d --size 1M");
        std::fs::write(workshop.0.path().join("image"), vec![7; 1 << 20]).expect("written");
        workshop
    }

    /// Returns the command `ferrite` with the words of `line`, free of what this process inherited from its user.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
        command.args(line.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("HOME", self.0.path()).env("COLUMNS", "100");
        for name in ["FERRITE_POOL", "FERRITE_TRUST_OWNER", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("ferrite runs")
    }

    /// Runs a command that must succeed, and returns its standard output.
    #[track_caller]
    fn ok(&self, line: &str) -> String {
        let Output { status, stdout, stderr } = self.run(line);
        assert!(status.success(), "{line}: {status}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).expect("text")
    }

    /// Starts a command and waits until it prints a line with `ready`.
    fn start(&self, line: &str, ready: &str) -> Running {
        let mut child = self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains(ready));
        let running = Running(child);
        assert!(is_ready, "{line} ended before it printed {ready:?}");
        running
    }

    /// Destroys both superblocks of the pool.
    fn corrupt(&self) {
        let file = File::options().write(true).open(self.0.path().join("pool")).expect("opened");
        [40, 4096 + 40].into_iter().for_each(|at| file.write_all_at(&[0x5a; 8], at).expect("written"));
    }

    fn has(&self, name: &str) -> bool {
        self.0.path().join(name).exists()
    }

    /// Runs the command of each row and compares its exit status and the first line of its refusal. A row has PID in place
    /// of a process's number, and paths from the folder. Prints all rows that differ.
    #[track_caller]
    fn assert_rows(&self, rows: &[Row]) {
        let (mut differing, folder) = (String::new(), format!("{}/", self.0.path().display()));
        for Row(line, status, first) in rows {
            let output = self.run(line);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            // The remarks before it, about what the pool survives, differ between machines.
            let is_refusal = |line: &&str| line.starts_with("ferrite") || line.starts_with("error: ");
            let first_line = message.lines().find(is_refusal).unwrap_or_default();
            let found = with_pid(first_line).replace(&folder, "");
            if output.status.code() != Some(*status) || found != *first {
                differing += &format!("Row({line:?}, {:?}, {found:?}),\n", output.status.code());
            }
            assert!(!message.contains("panicked"), "{line}: {message}");
        }
        assert!(differing.is_empty(), "these rows differ:\n{differing}");
    }
}

/// A command line, its exit status, and the first line of its refusal, empty if there is none.
struct Row(&'static str, i32, &'static str);

/// Returns `line` with PID in place of the number behind each word "process".
fn with_pid(line: &str) -> String {
    let mut parts = line.split("process ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        all + "process " + if rest.len() < part.len() { "PID" } else { "" } + rest
    })
}

/// A command that runs; killed when dropped.
struct Running(Child);

impl Running {
    /// Sends Ctrl-C, waits for the end, and returns the exit status.
    fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::INT).expect("sent");
        self.0.wait().expect("waited").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
