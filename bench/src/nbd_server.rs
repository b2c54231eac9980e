//! NBD servers beside which something is measured: processes with a Unix socket, or threads of this process.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_nbd::client::{ConnectOptions, NbdDisk, unix_uri};
use ferrite_nbd::{Exports, Options, Refusal, Server as NbdService};

use crate::child_process::{ChildProcess, ProcessEnding};
use crate::load_client::LoadClient;
use crate::scratch::Scratch;
use crate::session::BenchSession;
use crate::{Error, Result};

/// nbdkit's memory plugin.
pub const NBDKIT: &str = "nbdkit memory";
/// qemu-nbd on a file in tmpfs.
pub const QEMU: &str = "qemu-nbd tmpfs";

/// A server that answers. Dropped, it is killed.
pub struct NbdServer {
    /// The server's name in reports.
    pub name: &'static str,
    /// The path of the server's socket.
    pub socket: PathBuf,
    _running: Box<dyn Any>,
}

impl NbdServer {
    /// Starts `command`, which serves on `socket`, and waits until it answers.
    /// Fails with [`Error::Io`] if there is no such program, [`Error::Server`] if it ends or does not answer.
    pub fn start(name: &'static str, command: &mut Command, socket: &Path) -> Result<Self> {
        let answers = || match LoadClient::connect(socket) {
            Ok(client) => Ok(Some(client)),
            Err(why) if is_starting(&why) => Ok(None),
            Err(why) => Err(failed(name, why)),
        };
        let command = command.stderr(Stdio::piped());
        let process = ChildProcess::start_serving(name, command, ProcessEnding::Kill, answers)?;
        Ok(Self { name, socket: socket.into(), _running: Box::new(process) })
    }

    /// Serves `disk` by threads of this process.
    pub fn here(name: &'static str, disk: Arc<dyn Disk>, socket: &Path) -> Result<Self> {
        let listening = NbdService::new(Arc::new(OneExport(disk)), Options::default()).listen_unix(socket);
        let listening = listening.map_err(|why| Error::server(name, format!("it cannot listen: {why}")))?;
        Ok(Self { name, socket: socket.into(), _running: Box::new(listening) })
    }

    /// The server's disk, by a client for data.
    pub fn disk(&self) -> Result<NbdDisk> {
        let disk = NbdDisk::connect(&unix_uri("", &self.socket), &ConnectOptions::default());
        disk.map_err(|why| Error::server(self.name, why.to_string()))
    }

    /// Connects a client for loads.
    pub fn connect(&self) -> Result<LoadClient> {
        LoadClient::connect(&self.socket).map_err(|why| self.failed(why))
    }

    /// The error of a request that failed because of `why`.
    pub fn failed(&self, why: io::Error) -> Error {
        failed(self.name, why)
    }
}

/// The servers of memory that this machine has, each of a disk of `bytes`, with files and sockets in `scratch`.
/// Fails with [`Error::Server`] if one that is installed does not answer.
pub fn peers(session: &mut BenchSession<'_>, scratch: &Scratch, bytes: u64) -> Result<Vec<NbdServer>> {
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["--foreground", "--exit-with-parent", "--unix"]).arg(scratch.path("nbdkit"));
    nbdkit.args(["memory", &bytes.to_string()]);
    let image = scratch.filled("served", bytes)?;
    let mut qemu = Command::new("qemu-nbd");
    qemu.args(["--format=raw", "--persistent", "--shared=0", "--cache=writeback", "--discard=unmap", "--socket"]);
    qemu.arg(scratch.path("qemu")).arg(image);
    let mut servers = Vec::new();
    for (name, command, socket) in [(NBDKIT, &mut nbdkit, "nbdkit"), (QEMU, &mut qemu, "qemu")] {
        match NbdServer::start(name, command, &scratch.path(socket)) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                session.left_out(name, "it is not installed");
            }
            server => servers.push(server?),
        }
    }
    Ok(servers)
}

fn failed(name: &str, why: io::Error) -> Error {
    Error::io(format!("requests to {name}"))(why)
}

/// Whether a server that is still starting gives this error.
fn is_starting(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// One disk as the only export.
struct OneExport(Arc<dyn Disk>);

impl Exports for OneExport {
    fn list(&self) -> Vec<String> {
        vec!["disk".into()]
    }

    fn open(&self, name: &str) -> std::result::Result<Arc<dyn Disk>, Refusal> {
        if name == "disk" { Ok(Arc::clone(&self.0)) } else { Err(Refusal::Unknown) }
    }
}

#[cfg(test)]
mod tests;
