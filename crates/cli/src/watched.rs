//! Bytes on their way, watched.

use std::fs::File;
use std::io::{self, Read, Write};

use ferrite_pool::owner::Progress;

use crate::engine::OnProgress;

/// A file that tells how much has passed, and fails when it is told to stop.
pub struct Watched<'a> {
    file: File,
    progress: Progress,
    on_progress: OnProgress<'a>,
}

impl<'a> Watched<'a> {
    /// `file`, of which `total` bytes are expected, or 0 where that is not known.
    pub fn new(file: File, what: &str, total: u64, on_progress: OnProgress<'a>) -> Self {
        Self { file, progress: Progress { done: 0, total, what: what.into() }, on_progress }
    }

    fn pass(&mut self, bytes: usize) -> io::Result<usize> {
        self.progress.done += bytes as u64;
        if (self.on_progress)(self.progress.clone()) { Ok(bytes) } else { Err(io::Error::other("cancelled")) }
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(into)?;
        self.pass(bytes)
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let bytes = self.file.write(from)?;
        self.pass(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
