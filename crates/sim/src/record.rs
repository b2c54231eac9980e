//! A running program as a source of events. QEMU's user mode runs it with a plugin that contains the first level and
//! writes its events into shared memory. Nothing is stored on disk.
//!
//! Each thread of the program is a core. Processes that the program starts are not recorded, nor the program that it
//! becomes by exec; the recording only knows that it did so. Accesses of the kernel on the program's behalf are not
//! recorded. Threads mix as they run, so only programs of one thread repeat exactly, and only as far as their addresses
//! do.

mod qemu_files;
mod shared_ring;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cache::{CacheEvent, StudyEnd};
use crate::trace::{EventSource, FirstLevel};
use crate::{Error, Result};
use shared_ring::SharedRing;

/// The compiled plugin.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));

/// The first word of a recording.
const HELLO: u64 = u64::from_le_bytes(*b"ferrite1");

/// Stands in the place of a number of events: nothing follows.
const LAST: u64 = u64::MAX;

/// The most events of a frame; a larger number is damage.
const FRAME_MAX: u64 = 1 << 20;

/// Time between two checks for more words.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// After this many checks without words, the reader checks whether the program has gone.
const POLLS: u32 = 200;

/// A program to be recorded.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's name, looked up in PATH, and its arguments.
    pub words: Vec<OsString>,
    /// The working directory of the program; `None` is the current one.
    pub folder: Option<PathBuf>,
    /// The destination of its standard output.
    pub output: ProgramOutput,
}

/// The destination of a recorded program's standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramOutput {
    /// Discards standard output and standard error; standard input is empty.
    Discarded,
    /// To standard error.
    StandardError,
    /// To standard output, as without recording.
    Kept,
}

/// A program that runs and is recorded. If the recording is dropped before the end, the program is killed.
pub struct Recording {
    ring: SharedRing,
    /// The files that QEMU opens through this process while it starts.
    _opened: [File; 2],
    program: RunningProgram,
    accesses: u64,
    begun: bool,
    ended: bool,
    words: Vec<u64>,
}

/// A handle to the recorded program.
#[derive(Clone)]
pub struct RunningProgram {
    child: Arc<Mutex<Child>>,
    qemu: Option<PathBuf>,
    is_whole: Arc<AtomicBool>,
    has_forked: Arc<AtomicBool>,
}

impl Program {
    /// Starts the program.
    ///
    /// # Errors
    /// QEMU's user mode is not installed, or QEMU cannot run the program.
    pub fn start(&self, first: FirstLevel) -> Result<Recording> {
        first.check()?;
        let qemu = qemu_files::qemu()?;
        let program = qemu_files::program(&self.words)?;
        let (plugin, shared) = (qemu_files::plugin(PLUGIN)?, qemu_files::shared(shared_ring::BYTES)?);
        let ring = SharedRing::map(&shared).map_err(Error::io("mapping memory to record into"))?;
        let mut command = Command::new(qemu);
        command.arg("-plugin").arg(words_for_plugin(&plugin, &shared, first)?);
        command.arg("-0").arg(&self.words[0]).arg(program).args(&self.words[1..]);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        match self.output {
            ProgramOutput::Discarded => {
                command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
            }
            ProgramOutput::StandardError => {
                command.stdout(io::stderr());
            }
            ProgramOutput::Kept => {}
        }
        let child = command.spawn().map_err(Error::io(format!("starting {}", command.get_program().display())))?;
        let qemu = executable(&child);
        let program = RunningProgram {
            child: Arc::new(Mutex::new(child)),
            qemu,
            is_whole: Arc::default(),
            has_forked: Arc::default(),
        };
        let _opened = [plugin, shared];
        Ok(Recording { ring, _opened, program, accesses: 0, begun: false, ended: false, words: Vec::new() })
    }
}

/// Returns `file,pipe=..,sets=..`. Both files are reached through this process, so that the program inherits neither.
fn words_for_plugin(plugin: &File, shared: &File, first: FirstLevel) -> Result<String> {
    let own = |fd: RawFd| format!("/proc/{}/fd/{fd}", std::process::id());
    let (file, pipe) = (own(plugin.as_raw_fd()), own(shared.as_raw_fd()));
    let (sets, ways, line_bits) = (first.shape.sets()?, first.shape.ways, first.shape.line_bytes.ilog2());
    let instructions = u8::from(first.instructions);
    Ok(format!("{file},pipe={pipe},sets={sets},ways={ways},line_bits={line_bits},instructions={instructions}"))
}

impl RunningProgram {
    /// Kills the program.
    pub fn end(&self) {
        let _ = self.child.lock().expect("no thread panicked").kill();
    }

    /// Waits for the program after its recording ended with `end`, and returns its exit status. A program whose
    /// recording was stopped is killed.
    pub fn finish(&self, end: StudyEnd) -> Option<ExitStatus> {
        if end == StudyEnd::Stopped {
            self.end();
        }
        self.child.lock().expect("no thread panicked").wait().ok()
    }

    /// Returns true if the program was recorded to its end. A program that is killed, or becomes another program
    /// (exec), is not.
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }

    /// Returns true if the program has started other processes in the recorded part.
    pub fn has_forked(&self) -> bool {
        self.has_forked.load(Ordering::Relaxed)
    }

    /// Returns the exit status if the program has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().expect("no thread panicked").try_wait().ok().flatten()
    }

    /// Returns true if the program has ended or become another program: then the process does not run QEMU any more.
    fn is_gone(&self) -> bool {
        let mut child = self.child.lock().expect("no thread panicked");
        let has_ended = !matches!(child.try_wait(), Ok(None));
        has_ended || executable(&child).is_some_and(|file| self.qemu.as_ref().is_some_and(|qemu| *qemu != file))
    }
}

/// Returns the file that a process runs, while it runs and may be inspected.
fn executable(child: &Child) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{}/exe", child.id())).ok()
}

impl Recording {
    /// Returns a handle to the program.
    pub fn program(&self) -> RunningProgram {
        self.program.clone()
    }

    /// Reads the next `count` words. Returns false if the recording ends before.
    fn words(&mut self, count: usize) -> Result<bool> {
        self.words.resize(count, 0);
        let (mut done, mut polls, mut is_gone) = (0, 0_u32, false);
        loop {
            let taken = self.ring.take(&mut self.words[done..]);
            done += taken;
            if done == count || is_gone && taken == 0 {
                return Ok(done == count);
            }
            if taken == 0 {
                std::thread::sleep(POLL_INTERVAL);
                polls += 1;
                is_gone = polls.is_multiple_of(POLLS) && self.program.is_gone();
            }
        }
    }

    fn begin(&mut self) -> Result<bool> {
        if !self.words(1)? || self.words[0] != HELLO {
            return Err(Self::not_run());
        }
        self.begun = true;
        Ok(true)
    }

    fn not_run() -> Error {
        Error::Recording("the program could not be run under qemu-user: see its messages above".into())
    }

    /// Returns the error that the program began, and went before it sent anything.
    fn not_recorded(&self) -> Error {
        let how = match self.program.ended() {
            Some(status) if status.signal().is_some() => format!("ended with {status}"),
            // A program that ends by itself says so after its accesses.
            Some(status) => {
                let what = "could not be run, or became another program (exec; record that one by its own name)";
                format!("{what}, and ended with {status},")
            }
            None => "became another program (exec; record that one by its own name)".into(),
        };
        Error::Recording(format!("the program {how} before anything was known of it"))
    }

    fn frame(&mut self, into: &mut Vec<CacheEvent>) -> Result<bool> {
        if !self.words(1)? {
            return if self.accesses == 0 { Err(self.not_recorded()) } else { Ok(false) };
        }
        let count = self.words[0];
        // Every program that runs accesses memory.
        if count == LAST && self.accesses == 0 {
            return Err(Self::not_run());
        }
        if count == LAST {
            self.program.is_whole.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        if count > FRAME_MAX {
            return Err(Error::Recording(format!("the recording is damaged: a frame of {count} events")));
        }
        if !self.words(count as usize + 1)? {
            return Ok(false);
        }
        self.accesses += self.words[0];
        into.extend(self.words[1..].iter().map(|word| CacheEvent(*word)));
        Ok(true)
    }
}

impl EventSource for Recording {
    fn read(&mut self, into: &mut Vec<CacheEvent>) -> Result<bool> {
        let more = if self.begun { self.frame(into) } else { self.begin() };
        self.ended = matches!(more, Ok(false));
        self.program.has_forked.store(self.ring.has_forked(), Ordering::Relaxed);
        more
    }

    fn accesses(&self) -> u64 {
        self.accesses
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.ended {
            self.program.end();
        }
        let _ = self.program.child.lock().expect("no thread panicked").wait();
    }
}
