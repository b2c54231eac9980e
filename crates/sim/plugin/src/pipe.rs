//! The way out.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// The first word.
const HELLO: u64 = u64::from_le_bytes(*b"ferrite1");

/// In the place of a number of events: nothing follows.
const LAST: u64 = u64::MAX;

pub struct Pipe {
    file: File,
    /// The process whose accesses are sent.
    process: u32,
    bytes: Vec<u8>,
}

impl Pipe {
    /// Opens the pipe at `path` and says that recording begins.
    pub fn open(path: &str) -> Result<Self, String> {
        let file = OpenOptions::new().write(true).open(path).map_err(|error| format!("opening {path}: {error}"))?;
        let mut pipe = Self { file, process: std::process::id(), bytes: Vec::new() };
        pipe.write(&[HELLO]);
        Ok(pipe)
    }

    pub fn send(&mut self, accesses: u64, events: &[u64]) {
        self.write(&[&[events.len() as u64, accesses], events].concat());
    }

    pub fn end(&mut self) {
        self.write(&[LAST]);
    }

    /// Where nobody reads any more the recording is over, and so is the program.
    fn write(&mut self, words: &[u64]) {
        if self.process != std::process::id() {
            return;
        }
        self.bytes.clear();
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        if self.file.write_all(&self.bytes).is_err() {
            std::process::abort();
        }
    }
}
