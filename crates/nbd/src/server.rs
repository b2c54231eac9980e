//! The server: accepts connections and gives each a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::budget::Budget;
use super::export::Exports;
use super::handshake::Handshake;
use super::listener::{Door, ListenError, Listener, Reach};
use super::peer::{End, Peer};
use super::registry::{Registry, Ticket};
use super::tcp::{TcpDoor, TcpOptions};
use super::transport::Transport;

/// How long accepting rests when the system has no descriptor or thread left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Longer than a sleeping client takes to wake and to ask again: 15 to 25 microseconds on the virtual machines that were
/// measured, whose host has to start the idle processor first. Polling for a little less is in vain at every request.
const WAKE_UP: Duration = Duration::from_micros(50);

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most connections at once over Unix sockets, and as many over TCP; of more, the oldest that has not chosen its export
    /// is closed, or the one that has been idle for longest, or the new one.
    pub connections_max: usize,
    /// How long a connection waits for its client at least, to ask or to take what it asked for, before it makes room for
    /// another one.
    pub idle_least: Duration,
    /// How long a client may take from the greeting to its choice of an export, TLS included.
    pub handshake_timeout: Duration,
    /// How long a connection polls for the next request before it sleeps, where that pays; zero to sleep at once.
    pub spin: Duration,
    /// How long [`Listening::stop`] lets connections finish before it cuts them.
    pub stop_patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 256,
            idle_least: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(30),
            spin: WAKE_UP,
            stop_patience: Duration::from_secs(5),
        }
    }
}

/// An NBD server. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    exports: Arc<dyn Exports>,
    options: Options,
    registry: Arc<Registry>,
    budget: Arc<Budget>,
}

impl Server {
    /// A server of `exports`.
    pub fn new(exports: Arc<dyn Exports>, options: Options) -> Self {
        let registry = Arc::new(Registry::new(options.connections_max, options.idle_least));
        Self { exports, options, registry, budget: Arc::default() }
    }

    /// Serves on the Unix socket `path` (mode 0600) from threads of its own. A socket that a killed server left
    /// there is removed; one that somebody answers on is an error, and so is anything else.
    ///
    /// # Errors
    /// [`ListenError::Busy`] where a server answers there, [`ListenError::NotSocket`] where something else is,
    /// [`ListenError::TooLong`] for a path that no socket can have; else [`ListenError::Io`].
    pub fn listen_unix(&self, path: &Path) -> Result<Listening, ListenError> {
        let listener = Listener::bind(path)?;
        let failed = |source| ListenError::Io { path: path.into(), source };
        let accepting = self.open(Arc::new(listener)).map_err(failed)?;
        Ok(Listening { path: path.into(), accepting })
    }

    /// Serves on a TCP address from threads of its own, to whom `options` lets in; port 0 is a free one.
    ///
    /// # Errors
    /// [`ListenError::Address`], with what the system says.
    pub fn listen_tcp(&self, address: SocketAddr, options: TcpOptions) -> Result<ListeningTcp, ListenError> {
        let door = TcpDoor::bind(address, options)?;
        let address = door.address();
        let failed = |source| ListenError::Address { address, source };
        Ok(ListeningTcp { address, accepting: self.open(Arc::new(door)).map_err(failed)? })
    }

    fn open(&self, door: Arc<dyn Door>) -> io::Result<Accepting> {
        let (server, watched) = (self.clone(), Arc::clone(&door));
        let thread = thread::Builder::new().name("nbd-accept".into()).spawn(move || server.accept(&*watched));
        let thread = thread.inspect_err(|_| door.close())?;
        Ok(Accepting { server: self.clone(), door, thread: Some(thread) })
    }

    fn accept(&self, door: &dyn Door) {
        while !self.registry.is_stopping() {
            match door.accept() {
                Ok(Some(transport)) => self.start(door.reach(), transport),
                Ok(None) => {}
                Err(error) if is_of_one_client(&error) => {}
                // What passes, such as a lack of descriptors; a closed listener is found by the loop.
                Err(_) => self.registry.pause(EXHAUSTED_PAUSE),
            }
        }
    }

    /// Where there is no place, descriptor or thread for it the connection is closed, which its client sees.
    fn start(&self, reach: Reach, mut transport: Box<dyn Transport>) {
        let Ok(Some(ticket)) = self.registry.admit(reach, &*transport) else { return };
        let server = self.clone();
        let thread = thread::Builder::new().name("nbd".into());
        let started = thread.spawn(move || server.converse(&mut *transport, &ticket));
        if started.is_err() {
            self.registry.pause(EXHAUSTED_PAUSE);
        }
    }

    /// Serves one connection, as one over a Unix socket, in this thread, until its client disconnects (`Ok`) or it ends otherwise.
    ///
    /// # Errors
    /// [`End`], which says how; [`End::Closed`] also where the server is stopping or has no place for it.
    pub fn serve_stream(&self, mut stream: impl Transport) -> Result<(), End> {
        match self.registry.admit(Reach::Local, &stream)? {
            Some(ticket) => self.converse(&mut stream, &ticket),
            None => Err(End::Closed),
        }
    }

    fn converse(&self, transport: &mut dyn Transport, ticket: &Ticket) -> Result<(), End> {
        let mut peer = Peer::new(transport, self.options.spin, Arc::clone(&self.budget), ticket.waiting());
        let stopping = || self.registry.is_stopping();
        let handshake = Handshake::new(&mut peer, &*self.exports, self.options.handshake_timeout, &stopping);
        match handshake.run()? {
            Some(mut session) => {
                ticket.chosen();
                session.run(&mut peer)
            }
            None => Ok(()),
        }
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.registry.connections()
    }
}

/// Whether accepting failed for the client that was next in line alone, so that the next one need not wait.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut,
    };
    let kinds = [ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::EPROTO)
}

/// A server that accepts connections on a Unix socket. Dropped, it stops as [`Listening::stop`] does.
pub struct Listening {
    path: PathBuf,
    accepting: Accepting,
}

impl Listening {
    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts no more, removes the socket, lets every connection of the server answer what it has received, and
    /// closes them all, those that came in elsewhere too. One that takes longer than [`Options::stop_patience`] is
    /// cut. Returns how many could not be ended because their disk does not return.
    pub fn stop(mut self) -> usize {
        self.accepting.end()
    }
}

/// A server that accepts connections over TCP. Dropped, it stops as [`ListeningTcp::stop`] does.
pub struct ListeningTcp {
    address: SocketAddr,
    accepting: Accepting,
}

impl ListeningTcp {
    /// Where it listens, with the port that was found.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As [`Listening::stop`].
    pub fn stop(mut self) -> usize {
        self.accepting.end()
    }
}

/// A door and the thread that waits at it.
struct Accepting {
    server: Server,
    door: Arc<dyn Door>,
    thread: Option<JoinHandle<()>>,
}

impl Accepting {
    fn end(&mut self) -> usize {
        let Some(thread) = self.thread.take() else { return 0 };
        self.door.close();
        let left = self.server.registry.stop(self.server.options.stop_patience);
        // A panic of the accepting thread was printed by it, and nothing is left to be done for it.
        let _ = thread.join();
        left
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.end();
    }
}

impl From<End> for io::Error {
    fn from(end: End) -> Self {
        match end {
            End::Lost(error) => error,
            other => Self::other(other),
        }
    }
}
