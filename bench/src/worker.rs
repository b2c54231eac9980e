//! A process that works on a folder by orders on its standard input. The process that serves a mount never waits for that
//! mount, and a worker can be started in any way in which a program can, such as by `ferrite run`.

use std::ffi::OsStr;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::child_process::ChildProcess;
use crate::multi_ssd::{GUEST_LOAD, GuestLoad};
use crate::records::{FileOrder, KernelFolder, carry_out};
use crate::{Error, Result, region_work};

/// The subcommand of `ferrite` that is a worker.
pub const SUBCOMMAND: &str = "bench-worker";
/// The argument for an fdatasync after each write.
const SYNCS: &str = "--fdatasync";

/// The answer of a worker, as a line of JSON.
#[derive(Serialize, Deserialize)]
enum WorkerAnswer {
    Done(f64),
    Failed(String),
}

/// Carries out the orders of standard input, until it ends, in the folder that the arguments name. If the first argument is
/// [`GUEST_LOAD`], runs the load of a guest instead; if it is [`region_work::ARGUMENT`], works on a region.
///
/// # Errors
/// [`Error::Io`] if the orders cannot be read or the answers not be written. A failed order is an answer.
pub fn work(arguments: &[impl AsRef<OsStr>]) -> Result<()> {
    if arguments.first().is_some_and(|first| first.as_ref() == GUEST_LOAD) {
        return GuestLoad::run_arguments(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first.as_ref() == region_work::ARGUMENT) {
        return region_work::work_on_region();
    }
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
        let done = serde_json::from_str::<FileOrder>(&line).map_err(|why| why.to_string());
        let done = done.and_then(|order| carry_out(&folder, &order).map_err(|why| why.to_string()));
        let answer = done.map_or_else(WorkerAnswer::Failed, WorkerAnswer::Done);
        let text = serde_json::to_string(&answer).map_err(|why| Error::io("answering")(why.into()))?;
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::io("answering"))?;
    }
    Ok(())
}

/// A worker process on a folder. Dropped, it ends.
pub struct FolderWorker {
    name: String,
    process: ChildProcess,
}

impl FolderWorker {
    /// Starts the worker of the program that `command` runs, on `folder`. The worker syncs after each write if `syncs` is
    /// true.
    ///
    /// # Errors
    /// [`Error::Io`] if the system does not start it.
    pub fn start(mut command: Command, folder: &Path, syncs: bool) -> Result<Self> {
        let name = format!("the worker on {}", folder.display());
        command.arg(SUBCOMMAND).args(syncs.then_some(SYNCS)).arg(folder).current_dir("/");
        Ok(Self { process: ChildProcess::start_answering(&name, &mut command)?, name })
    }

    /// Carries out `order`, and returns what it measured.
    ///
    /// # Errors
    /// [`Error::Server`] if the worker could not do that, [`Error::Io`] if it has ended.
    pub fn order(&mut self, order: &FileOrder) -> Result<f64> {
        let answer = self.process.ask(&serde_json::to_string(order).expect("orders are plain"))?;
        match serde_json::from_str(&answer) {
            Ok(WorkerAnswer::Done(value)) => Ok(value),
            Ok(WorkerAnswer::Failed(what)) => Err(Error::server(&self.name, what)),
            Err(_) => Err(Error::server(&self.name, format!("it answered {answer:?}"))),
        }
    }
}
