//! A running program as a source of events: QEMU's user mode with a plugin of ours, which has the first level within
//! itself and sends what passes it down a pipe. Nothing is kept on disk.
//!
//! Each thread of the program is a core. Processes that it starts are not recorded, nor what it becomes by exec. What the kernel reads and writes on
//! the program's behalf is not seen. Threads mix as they run, so only programs of one thread repeat exactly; and those
//! too only as far as their addresses do.

mod place;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::cache::{End, Event};
use crate::trace::{First, Source};
use crate::{Error, Result};

/// The plugin, compiled.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so"));

/// The first word on the pipe.
const HELLO: u64 = u64::from_le_bytes(*b"ferrite1");

/// In the place of a number of events: nothing follows.
const LAST: u64 = u64::MAX;

/// Events of a frame at most; more is no frame.
const FRAME_MAX: u64 = 1 << 20;

/// A program to be recorded.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name, looked up in PATH, and its arguments.
    pub words: Vec<OsString>,
    /// Where it runs, if not here.
    pub folder: Option<PathBuf>,
    /// Whether what it prints is thrown away; else its standard output goes to standard error.
    pub quiet: bool,
}

/// A program that runs and is recorded. Dropped before its end, it is ended.
pub struct Recording {
    pipe: io::PipeReader,
    program: Running,
    accesses: u64,
    begun: bool,
    ended: bool,
    bytes: Vec<u8>,
}

/// The program, and our own end of its pipe, which is open until it has opened its.
#[derive(Clone)]
pub struct Running {
    child: Arc<Mutex<Child>>,
    writer: Arc<Mutex<Option<io::PipeWriter>>>,
    is_whole: Arc<AtomicBool>,
}

impl Program {
    /// Starts it.
    ///
    /// # Errors
    /// When QEMU's user mode is not installed, or the program is none that it can run.
    pub fn start(&self, first: First) -> Result<Recording> {
        let qemu = place::qemu()?;
        let program = place::program(&self.words)?;
        let (pipe, writer) = io::pipe().map_err(Error::io("making a pipe"))?;
        let plugin = place::plugin(PLUGIN)?;
        let mut command = Command::new(qemu);
        command.arg("-plugin").arg(words_for_plugin(&plugin, &writer, first)?);
        command.arg("-0").arg(&self.words[0]).arg(program).args(&self.words[1..]);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if self.quiet {
            command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        } else {
            command.stdout(io::stderr());
        }
        let child = command.spawn().map_err(Error::io(format!("starting {}", command.get_program().display())))?;
        let (child, writer) = (Arc::new(Mutex::new(child)), Arc::new(Mutex::new(Some(writer))));
        let program = Running { child, writer, is_whole: Arc::default() };
        program.clone().watch(plugin);
        Ok(Recording { pipe, program, accesses: 0, begun: false, ended: false, bytes: Vec::new() })
    }
}

/// `file,pipe=..,sets=..`: both files are reached through this process, so that the program inherits neither.
fn words_for_plugin(plugin: &File, writer: &io::PipeWriter, first: First) -> Result<String> {
    let own = |fd: RawFd| format!("/proc/{}/fd/{fd}", std::process::id());
    let (file, pipe) = (own(plugin.as_raw_fd()), own(writer.as_raw_fd()));
    let (sets, ways, line_bits) = (first.shape.sets()?, first.shape.ways, first.shape.line_bytes.ilog2());
    let instructions = u8::from(first.instructions);
    Ok(format!("{file},pipe={pipe},sets={sets},ways={ways},line_bits={line_bits},instructions={instructions}"))
}

impl Running {
    /// Ends it.
    pub fn end(&self) {
        let _ = self.child.lock().expect("nobody panicked").kill();
    }

    /// How it ended, when `end` says that its recording has; one that was stopped is ended.
    pub fn finish(&self, end: End) -> Option<ExitStatus> {
        if end == End::Stopped {
            self.end();
        }
        self.child.lock().expect("nobody panicked").wait().ok()
    }

    /// Whether it was recorded to its end. One that is killed is not, nor one that becomes another program (exec).
    pub fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().expect("nobody panicked").try_wait().ok().flatten()
    }

    /// Lets go of our end of the pipe when the program has gone without opening its own: else nobody would see the end.
    fn watch(self, plugin: File) {
        std::thread::spawn(move || {
            while self.ended().is_none() && self.is_waiting() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            self.writer.lock().expect("nobody panicked").take();
            drop(plugin);
        });
    }

    fn is_waiting(&self) -> bool {
        self.writer.lock().expect("nobody panicked").is_some()
    }
}

impl Recording {
    /// The program.
    pub fn program(&self) -> Running {
        self.program.clone()
    }

    /// The next words; whether there were so many.
    fn words(&mut self, count: usize) -> Result<bool> {
        self.bytes.resize(count * 8, 0);
        match self.pipe.read_exact(&mut self.bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Error::io("reading the recording")(error)),
        }
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
    }

    fn begin(&mut self) -> Result<bool> {
        let greeted = self.words(1)?;
        self.program.writer.lock().expect("nobody panicked").take();
        if !greeted || self.word(0) != HELLO {
            return Err(Error::Recording(
                "the program could not be run under qemu-user: see what it says above".into(),
            ));
        }
        self.begun = true;
        Ok(true)
    }

    fn frame(&mut self, into: &mut Vec<Event>) -> Result<bool> {
        if !self.words(1)? {
            return Ok(false);
        }
        if self.word(0) == LAST {
            self.program.is_whole.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        let count = self.word(0);
        if count > FRAME_MAX {
            return Err(Error::Recording(format!("the recording is damaged: a frame of {count} events")));
        }
        if !self.words(count as usize + 1)? {
            return Ok(false);
        }
        self.accesses += self.word(0);
        into.extend((1..=count as usize).map(|at| Event(self.word(at))));
        Ok(true)
    }
}

impl Source for Recording {
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool> {
        let more = if self.begun { self.frame(into) } else { self.begin() };
        self.ended = matches!(more, Ok(false));
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
        let _ = self.program.child.lock().expect("nobody panicked").wait();
    }
}

/// Writes `bytes` to a file that has no name any more.
fn nameless(path: PathBuf, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(bytes)?;
    Ok(file)
}
