//! Files that are read or written while a caller watches the progress.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

use ferrite_pool::{Progress, Way, ready_within};

use crate::ProgressCall;

/// Time between two questions whether to go on, while the other side of a pipe is idle.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes that a pipe that is ready accepts without waiting: PIPE_BUF.
const READY_BYTES: usize = 4096;

/// Files that report how many bytes have passed, and fail when the caller stops the work. They also fail while no byte
/// passes: a file may be a pipe of a client, which must not delay the end of the pool's owner.
pub struct WatchedFiles<'a> {
    file: File,
    /// The files that are read behind `file`; the next one is last.
    rest: Vec<File>,
    /// True for a file that never waits.
    is_plain: bool,
    progress: Progress,
    on_progress: ProgressCall<'a>,
}

impl<'a> WatchedFiles<'a> {
    /// Watches `file`, of which `total` bytes are expected; 0 if the number is not known. `what` names the work.
    pub fn new(file: File, what: &str, total: u64, on_progress: ProgressCall<'a>) -> Self {
        let is_plain = is_plain(&file);
        let progress = Progress { done: 0, total, what: what.into() };
        Self { file, rest: Vec::new(), is_plain, progress, on_progress }
    }

    /// Watches several files that are read one behind the other; `None` without a file.
    pub fn several(files: Vec<File>, what: &str, total: u64, on_progress: ProgressCall<'a>) -> Option<Self> {
        let mut rest: Vec<File> = files.into_iter().rev().collect();
        let first = rest.pop()?;
        Some(Self { rest, ..Self::new(first, what, total, on_progress) })
    }

    fn pass(&mut self, bytes: usize) -> io::Result<usize> {
        self.progress.done += bytes as u64;
        if (self.on_progress)(self.progress.clone()) { Ok(bytes) } else { Err(io::Error::other("cancelled")) }
    }

    fn await_other_side(&mut self, way: Way) -> io::Result<()> {
        while !self.is_plain && !ready_within(&self.file, way, LOOK)? {
            self.pass(0)?;
        }
        Ok(())
    }
}

impl Read for WatchedFiles<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.await_other_side(Way::Read)?;
            let bytes = self.file.read(into)?;
            let next = if bytes == 0 && !into.is_empty() { self.rest.pop() } else { None };
            let Some(next) = next else { return self.pass(bytes) };
            (self.is_plain, self.file) = (is_plain(&next), next);
        }
    }
}

impl Write for WatchedFiles<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.await_other_side(Way::Write)?;
        let most = if self.is_plain { from.len() } else { READY_BYTES };
        let bytes = self.file.write(&from[..from.len().min(most)])?;
        self.pass(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn is_plain(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests;
