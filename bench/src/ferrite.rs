//! The `ferrite` program as its users start it, in processes of its own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::child_process::{ChildProcess, ProcessEnding};
use crate::nbd_server::NbdServer;
use crate::pool_tree::ClosedPool;
use crate::scratch::Scratch;
use crate::{Result, program};

/// The name of our server in reports.
pub const OURS: &str = "ferrite";
/// How long files may take to move to superpages.
const SUPERPAGE_PATIENCE: Duration = Duration::from_secs(20);

/// The program: the one that the environment variable `FERRITE` names, else this process's own if it is `ferrite`.
pub fn ferrite_program() -> Option<PathBuf> {
    choose(env::var_os("FERRITE"), env::current_exe().ok())
}

fn choose(variable: Option<OsString>, own: Option<PathBuf>) -> Option<PathBuf> {
    let own = own.filter(|path| path.file_name() == Some(OsStr::new("ferrite")));
    variable.map(PathBuf::from).or(own)
}

/// A command that runs the program added to it under `ferrite run`.
pub fn under_run(ferrite: &Path) -> Command {
    let mut command = Command::new(ferrite);
    command.args(["run", "--"]);
    command
}

/// Starts `ferrite up`, without a `/dev` node, on a pool in `scratch` whose only disk it serves, and waits until it answers.
/// The pool is made if it does not exist.
/// Fails with [`crate::Error::Io`] if there is no such program, [`crate::Error::Server`] if it ends or does not answer.
pub fn serve(ferrite: &Path, scratch: &Scratch, pool_bytes: u64, disk_bytes: u64) -> Result<NbdServer> {
    let socket = scratch.path("ferrite");
    let mut command = Command::new(ferrite);
    command.args(["up", "--no-attach", "--no-mount", "--size", &pool_bytes.to_string()]);
    command.args(["--disk", &format!("disk={disk_bytes}"), "--pool"]).arg(scratch.path("pool"));
    NbdServer::start(OURS, command.arg("--unix").arg(&socket), &socket)
}

/// A process that owns a pool and mounts a file system of it. Dropped, it unmounts and ends.
pub struct OwnerProcess {
    ferrite: PathBuf,
    name: &'static str,
    process: ChildProcess,
    pool: Arc<ClosedPool>,
}

impl OwnerProcess {
    /// Mounts the file system `name` of `pool` on `point` by `ferrite`, run by `by`. Returns `None` if the process ends at
    /// once: the program lacks the command, or the user may not mount.
    pub fn start(
        mut by: Command,
        ferrite: &Path,
        pool: Arc<ClosedPool>,
        name: &'static str,
        point: &Path,
    ) -> Result<Option<Self>> {
        by.args(["fs", "mount", "--json"]).arg(pool.path()).arg(name).arg(point);
        let mut process =
            ChildProcess::start_reporting(&ferrite.display().to_string(), &mut by, ProcessEnding::Interrupt)?;
        let is_mounted = !process.read_line()?.is_empty();
        Ok(is_mounted.then(|| Self { ferrite: ferrite.into(), name, process, pool }))
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until `bytes` of files are in superpages, or until that takes too long.
    pub fn wait_for_superpages(&self, bytes: u64) -> Result<()> {
        let until = Instant::now() + SUPERPAGE_PATIENCE;
        let mut stat = Command::new(&self.ferrite);
        stat.args(["fs", "stat", "--json"]).arg(self.pool.path()).arg(self.name);
        loop {
            let stat: serde_json::Value = serde_json::from_str(&program::output(&mut stat)?).unwrap_or_default();
            if stat["space"]["super_bytes"].as_u64() >= Some(bytes) || Instant::now() > until {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
