//! The way of events out of the program.

use std::fs::OpenOptions;
use std::os::unix::process::parent_id;
use std::time::Duration;

use crate::qemu;
use crate::shared_ring::SharedRing;

/// The first word of a recording.
const HELLO: u64 = u64::from_le_bytes(*b"ferrite1");

/// Stands in the place of a number of events: nothing follows.
const LAST: u64 = u64::MAX;

/// Time between two checks for free room.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

pub struct EventPipe {
    ring: SharedRing,
    /// The process whose accesses are sent.
    process: u32,
    /// The recording process.
    parent: u32,
}

impl EventPipe {
    /// Opens the memory at `path` and announces the recording.
    pub fn open(path: &str) -> Result<Self, String> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let ring = file.and_then(|file| SharedRing::map(&file)).map_err(|error| format!("opening {path}: {error}"))?;
        let pipe = Self { ring, process: std::process::id(), parent: parent_id() };
        pipe.write(&[HELLO]);
        Ok(pipe)
    }

    pub fn send(&self, accesses: u64, events: &[u64]) {
        self.write(&[events.len() as u64, accesses]);
        self.write(events);
    }

    pub fn end(&self) {
        self.write(&[LAST]);
    }

    pub fn forked(&self) {
        if self.process == std::process::id() {
            self.ring.set_forked();
        }
    }

    /// Writes `words`. If the recording process is gone, the recording is over, and so is the program.
    fn write(&self, mut words: &[u64]) {
        if self.process != std::process::id() {
            return;
        }
        loop {
            if parent_id() != self.parent {
                qemu::end();
            }
            words = &words[self.ring.put(words)..];
            if words.is_empty() {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
