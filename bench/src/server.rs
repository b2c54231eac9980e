//! Servers beside which something is measured: processes with a socket, or this process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_disk::Disk;
use ferrite_nbd::{Exports, Listening, Options, Refusal, Server as Nbd};

use crate::client::Client;
use crate::{Error, Result};

/// How long a server may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_micros(100);

/// A server that answers. Dropped, it is stopped.
pub struct Server {
    /// Its name in reports.
    pub name: String,
    socket: PathBuf,
    running: Running,
}

enum Running {
    Process(Child),
    Here { _listening: Listening },
}

impl Server {
    /// Starts `command`, which serves on `socket`, and waits until it answers; `None` where there is no such program.
    pub fn start(name: &str, command: &mut Command, socket: &Path) -> Result<Option<Self>> {
        let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(Error::io(format!("starting {name}"))(why)),
        };
        let mut server = Self { name: name.into(), socket: socket.into(), running: Running::Process(child) };
        server.first_answer()?;
        Ok(Some(server))
    }

    /// Serves `disk` from threads of this process.
    pub fn here(name: &str, disk: Arc<dyn Disk>, socket: &Path) -> Result<Self> {
        let listening = Nbd::new(Arc::new(One(disk)), Options::default()).listen_unix(socket);
        let listening =
            listening.map_err(|why| Error::Server { who: name.into(), what: format!("it cannot listen: {why}") })?;
        Ok(Self { name: name.into(), socket: socket.into(), running: Running::Here { _listening: listening } })
    }

    /// A connection to it, as soon as it takes one.
    pub fn first_answer(&mut self) -> Result<Client> {
        let start = Instant::now();
        loop {
            match Client::connect(&self.socket) {
                Ok(client) => return Ok(client),
                Err(why) if !is_early(&why) => return Err(self.failed(why)),
                Err(why) if start.elapsed() > START_PATIENCE => return Err(self.failed(why)),
                Err(_) => self.ensure_alive()?,
            }
            std::thread::sleep(POLL);
        }
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Client> {
        Client::connect(&self.socket).map_err(|why| self.failed(why))
    }

    /// The error of a request to it that failed.
    pub fn failed(&self, why: io::Error) -> Error {
        Error::io(format!("talking to {}", self.name))(why)
    }

    /// Kills it as a power cut of its process would; nothing is closed in order.
    pub fn kill(mut self) {
        self.end();
    }

    fn ensure_alive(&mut self) -> Result<()> {
        let Running::Process(child) = &mut self.running else { return Ok(()) };
        let Ok(Some(status)) = child.try_wait() else { return Ok(()) };
        let said = child.stderr.take().map(io::read_to_string).and_then(io::Result::ok).unwrap_or_default();
        Err(Error::Server { who: self.name.clone(), what: format!("it ended ({status}) and said: {}", said.trim()) })
    }

    fn end(&mut self) {
        if let Running::Process(child) = &mut self.running {
            // It may have ended already; either way it is waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a server that is still starting gives this error.
fn is_early(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// One disk as the only export.
struct One(Arc<dyn Disk>);

impl Exports for One {
    fn list(&self) -> Vec<String> {
        vec!["disk".into()]
    }

    fn open(&self, name: &str) -> std::result::Result<Arc<dyn Disk>, Refusal> {
        if name == "disk" { Ok(Arc::clone(&self.0)) } else { Err(Refusal::Unknown) }
    }
}
