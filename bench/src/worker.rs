//! A program that works on a folder: a process of its own, told what to do line by line. So nobody waits for a mount
//! that he serves, and whatever can be done to a program (`ferrite run`) can be done to it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::records::{KernelFolder, Order, obey};
use crate::{Error, Result};

/// The subcommand of `ferrite` that is one.
pub const SUBCOMMAND: &str = "bench-worker";
/// What it is told where each write is to be followed by an fdatasync.
const SYNCS: &str = "--fdatasync";

/// How a worker answers.
#[derive(Serialize, Deserialize)]
enum Answer {
    Done(f64),
    Failed(String),
}

/// Does, in the folder that the arguments name, what standard input says, until it ends.
///
/// # Errors
/// Where it cannot hear or answer; what it fails at it answers.
pub fn work(arguments: &[impl AsRef<OsStr>]) -> Result<()> {
    let mut folder = KernelFolder { path: PathBuf::new(), syncs: false };
    for argument in arguments.iter().map(AsRef::as_ref) {
        if argument == SYNCS {
            folder.syncs = true;
        } else {
            folder.path = argument.into();
        }
    }
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(Error::io("hearing what to do"))?;
        let done = serde_json::from_str::<Order>(&line).map_err(|why| why.to_string());
        let done = done.and_then(|order| obey(&folder, &order).map_err(|why| why.to_string()));
        let answer = done.map_or_else(Answer::Failed, Answer::Done);
        let text = serde_json::to_string(&answer).map_err(|why| Error::io("answering")(why.into()))?;
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::io("answering"))?;
    }
    Ok(())
}

/// A worker. Dropped, it is waited for.
pub struct Worker {
    name: String,
    child: Child,
    told: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts one by `ferrite`, run by `way` if there is one, on `folder`.
    ///
    /// # Errors
    /// [`Error::Io`] where the system does not start it.
    pub fn start((way, ferrite): (&[&OsStr], &Path), folder: &Path, syncs: bool) -> Result<Self> {
        let words: Vec<&OsStr> = way.iter().copied().chain([ferrite.as_os_str(), OsStr::new(SUBCOMMAND)]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(syncs.then_some(SYNCS)).arg(folder).current_dir("/");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(Error::io(format!("starting {}", ferrite.display())))?;
        let (told, says) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Ok(Self { name: folder.display().to_string(), child, told, says: BufReader::new(says) })
    }

    /// Has `order` done.
    ///
    /// # Errors
    /// [`Error::Server`] where it says why it could not do that, [`Error::Io`] where it has ended.
    pub fn order(&mut self, order: &Order) -> Result<f64> {
        let mut line = serde_json::to_string(order).expect("orders are plain") + "\n";
        let gone = |what: &str| Error::io(format!("the worker on {} {what}", self.name));
        self.told.as_mut().expect("until it is dropped").write_all(line.as_bytes()).map_err(gone("does not hear"))?;
        line.clear();
        self.says.read_line(&mut line).map_err(gone("says nothing"))?;
        match serde_json::from_str(&line) {
            Ok(Answer::Done(value)) => Ok(value),
            Ok(Answer::Failed(what)) => Err(Error::Server { who: format!("the worker on {}", self.name), what }),
            Err(_) => Err(gone("ended")(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends when it is told nothing more.
        self.told = None;
        let _ = self.child.wait();
    }
}
