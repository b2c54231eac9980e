//! The server: accepts connections and gives each its own thread.

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

/// Pause of the accepting thread when the system has no descriptor or thread left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Longer than a sleeping client takes to wake and to ask again: 15 to 25 microseconds on the measured virtual
/// machines. Their host must start the idle processor first. Slightly shorter polling would miss every request.
const WAKE_UP: Duration = Duration::from_micros(50);

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most connections at once over Unix sockets, and the same number over TCP. If there are more, one is closed: the
    /// oldest that has not chosen its export, or the longest idle one, or the new one.
    pub connections_max: usize,
    /// Least time that a connection waits for its client, to send a request or to receive a reply, before it makes room
    /// for another one.
    pub idle_least: Duration,
    /// Time that a client may take from the greeting to its choice of an export, TLS included.
    pub handshake_timeout: Duration,
    /// Time that a connection polls for the next request before it sleeps, if polling pays; zero to sleep at once.
    pub spin: Duration,
    /// Time that [`Listening::stop`] allows connections to finish before it cuts them.
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

/// An NBD server. Clones share one server.
#[derive(Clone)]
pub struct Server {
    exports: Arc<dyn Exports>,
    options: Options,
    registry: Arc<Registry>,
    budget: Arc<Budget>,
}

impl Server {
    /// Creates a server of `exports`.
    pub fn new(exports: Arc<dyn Exports>, options: Options) -> Self {
        let registry = Arc::new(Registry::new(options.connections_max, options.idle_least));
        Self { exports, options, registry, budget: Arc::default() }
    }

    /// Serves on the Unix socket `path` (mode 0600) from its own threads. A socket of a killed server is removed. A
    /// socket on which a server answers is an error, and so is any other file.
    ///
    /// # Errors
    /// Returns [`ListenError::Busy`] if a server answers on the socket, and [`ListenError::NotSocket`] if the path is
    /// another file. Returns [`ListenError::TooLong`] if the path does not fit a socket address, and
    /// [`ListenError::Io`] otherwise.
    pub fn listen_unix(&self, path: &Path) -> Result<Listening, ListenError> {
        let listener = Listener::bind(path)?;
        let failed = |source| ListenError::Io { path: path.into(), source };
        let accepting = self.open(Arc::new(listener)).map_err(failed)?;
        Ok(Listening { path: path.into(), accepting })
    }

    /// Serves on a TCP address from its own threads, for the clients that `options` allows; port 0 selects a free port.
    ///
    /// # Errors
    /// Returns [`ListenError::Address`] with the error of the system.
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
                // A temporary error, such as a lack of descriptors; the loop itself detects a closed listener.
                Err(_) => self.registry.pause(EXHAUSTED_PAUSE),
            }
        }
    }

    /// Starts the thread of a connection. If there is no place, descriptor or thread, the connection is closed, which
    /// its client sees.
    fn start(&self, reach: Reach, mut transport: Box<dyn Transport>) {
        let Ok(Some(ticket)) = self.registry.admit(reach, &*transport) else { return };
        let server = self.clone();
        let thread = thread::Builder::new().name("nbd".into());
        let started = thread.spawn(move || server.converse(&mut *transport, &ticket));
        if started.is_err() {
            self.registry.pause(EXHAUSTED_PAUSE);
        }
    }

    /// Serves one connection in this thread, like a connection over a Unix socket, until its client disconnects (`Ok`)
    /// or it ends otherwise.
    ///
    /// # Errors
    /// Returns [`End`] with the reason; [`End::Closed`] if the server is stopping or has no place for the connection.
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

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.registry.connections()
    }
}

/// Returns true if accepting failed only for the next client, so that the following client need not wait.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut,
    };
    let kinds = [ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::EPROTO)
}

/// A server that accepts connections on a Unix socket. Dropping it stops it like [`Listening::stop`].
pub struct Listening {
    path: PathBuf,
    accepting: Accepting,
}

impl Listening {
    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops accepting, removes the socket, makes every connection of the server answer its received requests, and
    /// closes them all. This includes connections from other doors. A connection that takes longer than
    /// [`Options::stop_patience`] is cut. Returns the number of connections that could not be ended because their disk
    /// does not return.
    pub fn stop(mut self) -> usize {
        self.accepting.end()
    }
}

/// A server that accepts connections over TCP. Dropping it stops it like [`ListeningTcp::stop`].
pub struct ListeningTcp {
    address: SocketAddr,
    accepting: Accepting,
}

impl ListeningTcp {
    /// Returns the address, with the selected port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server like [`Listening::stop`].
    pub fn stop(mut self) -> usize {
        self.accepting.end()
    }
}

/// A listening socket and its accepting thread.
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
        // The accepting thread has printed its panic, which needs no other handling.
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
