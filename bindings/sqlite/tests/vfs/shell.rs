//! SQLite's shell as a child process that runs one statement at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running shell; dropping it kills it.
pub struct Shell {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

/// The line that the shell prints after each statement.
const DONE: &str = "-- done";

/// Returns the path of the library, without its ending.
pub fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let places = [deps.join("libferrite_sqlite"), deps.parent().unwrap().join("libferrite_sqlite")];
    let is_there = |place: &&PathBuf| place.with_extension("so").exists();
    places.iter().find(is_there).expect("cargo builds the library for its tests").clone()
}

impl Shell {
    /// Starts a shell with `uri` open, by this VFS.
    pub fn open(uri: &str) -> Self {
        let mut shell = Self::start();
        let said = shell.run(&format!(".load {}\n.open {uri}\npragma busy_timeout=20000;", library().display()));
        assert!(said.contains("20000"), "{said}");
        shell
    }

    /// Starts a shell without this VFS.
    pub fn plain(path: &std::path::Path) -> Self {
        let mut shell = Self::start();
        shell.run(&format!(".open {}\n.timeout 20000", path.display()));
        shell
    }

    fn start() -> Self {
        // The output is buffered by line, so that the test reads acknowledgements before a kill.
        let mut child = Command::new("stdbuf")
            .args(["-oL", "sqlite3", "-batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sqlite3 is installed by `cargo xtask test`");
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends `text` without waiting.
    pub fn send(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        // A shell that was killed does not read.
        let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
    }

    /// Returns the next line that the shell prints, or `None` at its end.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).unwrap_or(0);
        (read > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
    }

    /// Runs `text`; returns its output without errors.
    pub fn run(&mut self, text: &str) -> String {
        self.send(&format!("{text}\n.print {DONE}"));
        let mut said = String::new();
        loop {
            match self.line() {
                Some(line) if line == DONE => return said,
                Some(line) => said += &(line + "\n"),
                None => panic!("it ended after {said:?}: {}", self.complaints()),
            }
        }
    }

    /// Runs `text`, which prints one line, and returns the line.
    pub fn ask(&mut self, text: &str) -> String {
        self.run(text).trim_end().to_owned()
    }

    /// Ends the shell properly; returns its errors.
    pub fn end(mut self) -> String {
        self.complaints()
    }

    fn complaints(&mut self) -> String {
        drop(self.stdin.take());
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        let _ = self.child.wait();
        text
    }

    /// Kills the shell at its current point.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the shell, and returns all lines that it had printed.
    pub fn kill_and_hear(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let lines = std::iter::from_fn(|| self.line()).collect();
        self.child.wait().unwrap();
        lines
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
