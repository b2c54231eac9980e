//! Servers, peers and workers: processes that are ended and waited for when they are dropped.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// How long a process may take to end after it was asked to; then it is killed.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Short, because recovery is timed by it.
const START_POLL: Duration = Duration::from_micros(100);
const END_POLL: Duration = Duration::from_millis(1);

/// How a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnding {
    /// The process receives SIGKILL.
    Kill,
    /// The process receives SIGINT, on which servers shut down in order.
    Interrupt,
    /// The process's standard input ends.
    EndOfInput,
}

/// A process of this one.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    ending: ProcessEnding,
}

impl ChildProcess {
    /// Starts `command`, called `name` in errors, with nothing to read or write.
    /// If there is no such program, the kind of the error's source is `NotFound`.
    pub fn start(name: &str, command: &mut Command, ending: ProcessEnding) -> Result<Self> {
        Self::spawn(name, command.stdin(Stdio::null()).stdout(Stdio::null()), ending)
    }

    /// Starts `command`, which serves something, and polls `ready` until it returns a value.
    /// Fails like [`ChildProcess::start`] and [`ChildProcess::wait_for`].
    pub fn start_serving<T>(
        name: &str,
        command: &mut Command,
        ending: ProcessEnding,
        ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Self> {
        let mut process = Self::start(name, command, ending)?;
        process.wait_for(START_PATIENCE, START_POLL, ready)?;
        Ok(process)
    }

    /// Starts `command` to be read from.
    pub fn start_reporting(name: &str, command: &mut Command, ending: ProcessEnding) -> Result<Self> {
        Self::spawn(name, command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()), ending)
    }

    /// Starts `command` to be asked line by line until the end of its input.
    pub fn start_answering(name: &str, command: &mut Command) -> Result<Self> {
        Self::spawn(name, command.stdin(Stdio::piped()).stdout(Stdio::piped()), ProcessEnding::EndOfInput)
    }

    fn spawn(name: &str, command: &mut Command, ending: ProcessEnding) -> Result<Self> {
        let mut child = command.spawn().map_err(Error::io(format!("starting {name}")))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Ok(Self { name: name.into(), child, input, output, ending })
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that the process writes; an empty string if it has ended.
    pub fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some(output) = &mut self.output {
            output.read_line(&mut line).map_err(Error::io(format!("reading from {}", self.name)))?;
        }
        Ok(line)
    }

    /// Writes `question` as a line, and returns the line that answers it.
    pub fn ask(&mut self, question: &str) -> Result<String> {
        if let Some(input) = &mut self.input {
            let written = writeln!(input, "{question}").and_then(|()| input.flush());
            written.map_err(Error::io(format!("writing to {}", self.name)))?;
        }
        match self.read_line()? {
            line if line.is_empty() => {
                Err(Error::io(format!("reading from {}", self.name))(io::ErrorKind::UnexpectedEof.into()))
            }
            line => Ok(line),
        }
    }

    /// Polls `ready` until it returns a value.
    /// Fails with the errors of `ready`; [`Error::Server`] if the process ends first, or `patience` does.
    pub fn wait_for<T>(
        &mut self,
        patience: Duration,
        poll: Duration,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(value) = ready()? {
                return Ok(value);
            }
            let ended = self.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                let mut errors = String::new();
                let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
                return Err(self.failed(format!("it ended ({status}): {}", errors.trim())));
            }
            if start.elapsed() > patience {
                return Err(self.failed(format!("it did not answer within {} s", patience.as_secs())));
            }
            std::thread::sleep(poll);
        }
    }

    fn failed(&self, what: String) -> Error {
        Error::server(&self.name, what)
    }

    /// Whether the process ends by itself before [`END_PATIENCE`] has passed.
    fn ends(&mut self) -> bool {
        let start = Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if start.elapsed() > END_PATIENCE {
                return false;
            }
            std::thread::sleep(END_POLL);
        }
        true
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.input = None;
        if self.ending == ProcessEnding::Interrupt {
            let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        }
        if self.ending == ProcessEnding::Kill || !self.ends() {
            let _ = self.child.kill();
        }
        // A process that has ended already is only waited for.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
