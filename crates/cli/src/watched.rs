//! Bytes on their way, watched.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

use ferrite_pool::{Progress, Way, ready_within};

use crate::engine::OnProgress;

/// How often it is asked whether to go on while the other side gives or takes nothing.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes that what is ready to take some takes without waiting: PIPE_BUF.
const READY_BYTES: usize = 4096;

/// A file that tells how much has passed, and fails when it is told to stop: also while nothing passes, since it may
/// be a pipe of a client, who must not hold up the end of the pool's owner.
pub struct Watched<'a> {
    file: File,
    /// What is read behind it, next last.
    rest: Vec<File>,
    /// Whether it takes what it is given at once.
    is_plain: bool,
    progress: Progress,
    on_progress: OnProgress<'a>,
}

impl<'a> Watched<'a> {
    /// `file`, of which `total` bytes are expected, or 0 where that is not known.
    pub fn new(file: File, what: &str, total: u64, on_progress: OnProgress<'a>) -> Self {
        let is_plain = is_plain(&file);
        let progress = Progress { done: 0, total, what: what.into() };
        Self { file, rest: Vec::new(), is_plain, progress, on_progress }
    }

    /// As [`Watched::new`], of several files to be read one behind the other.
    pub fn several(files: Vec<File>, what: &str, total: u64, on_progress: OnProgress<'a>) -> Option<Self> {
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

impl Read for Watched<'_> {
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

impl Write for Watched<'_> {
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
mod tests {
    use std::io::Seek;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// Whether `pass` ends, with an error, although the other side of its pipe does nothing, once it is told to stop.
    fn ends(end: OwnedFd, pass: fn(&mut Watched<'_>) -> io::Result<u64>) -> bool {
        static STOPPED: AtomicBool = AtomicBool::new(false);
        let (told, ended) = channel();
        thread::spawn(move || {
            let mut go_on = |_| !STOPPED.load(Ordering::SeqCst);
            let result = pass(&mut Watched::new(end.into(), "passing", 0, &mut go_on));
            told.send(result.is_err()).expect("the test listens");
        });
        STOPPED.store(true, Ordering::SeqCst);
        // What waits for the other side would wait for ever.
        ended.recv_timeout(Duration::from_secs(60)).unwrap_or(false)
    }

    #[test]
    fn a_silent_other_side_does_not_keep_it_from_stopping() {
        let (reader, writer) = io::pipe().expect("a pipe");
        assert!(ends(reader.into(), |watched| watched.read_to_end(&mut Vec::new()).map(|_| 0)), "nobody writes");
        drop(writer);
        let (reader, writer) = io::pipe().expect("a pipe");
        assert!(ends(writer.into(), |watched| io::copy(&mut io::repeat(1), watched)), "nobody reads");
        drop(reader);
    }

    #[test]
    fn several_files_are_read_one_behind_the_other() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"first ").and_then(|()| file.rewind()).expect("written");
        writer.write_all(b"second").expect("written");
        drop(writer);
        let (files, mut done) = (vec![file, OwnedFd::from(reader).into()], 0);
        let mut count = |progress: Progress| {
            done = progress.done;
            true
        };
        let mut got = String::new();
        let mut watched = Watched::several(files, "passing", 0, &mut count).expect("there are some");
        watched.read_to_string(&mut got).expect("read");
        assert_eq!((got.as_str(), done), ("first second", 12));
        assert!(Watched::several(Vec::new(), "passing", 0, &mut |_| true).is_none());
    }

    #[test]
    fn all_bytes_pass_through_a_pipe() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| i as u8).collect();
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let (sent, mut done) = (bytes.clone(), 0);
        let thread = thread::spawn(move || {
            let mut count = |progress: Progress| {
                done = progress.done;
                true
            };
            let mut watched = Watched::new(OwnedFd::from(writer).into(), "passing", 0, &mut count);
            watched.write_all(&sent).expect("written");
            drop(watched);
            done
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).expect("read");
        assert!(got == bytes);
        assert_eq!(thread.join().expect("wrote"), bytes.len() as u64);
    }
}
