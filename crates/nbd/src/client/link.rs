//! The socket of a connection, Unix or TCP.
#![allow(unsafe_code)] // std has no recv and send with flags, no poll and no connect of a socket with a limit.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::uri::Address;
use crate::tcp::prepare;

/// Time in seconds after which a silent host counts as gone.
const SILENT_S: libc::c_int = 30;
/// Interval in seconds between keepalive probes to a silent host.
const SIGN_S: libc::c_int = 10;

/// A connected socket.
#[derive(Debug)]
pub(super) enum Link {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// The conditions that end a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketWait {
    /// If true, room to send ends the wait.
    pub for_sending: bool,
    /// If true, bytes to receive end the wait.
    pub for_receiving: bool,
    /// Limit of the wait; `None` waits forever.
    pub timeout: Option<Duration>,
}

impl Link {
    /// Connects within `timeout` to one of the addresses of the host.
    pub fn connect(address: &Address, timeout: Duration) -> io::Result<Self> {
        let until = Instant::now() + timeout;
        let (host, port) = match address {
            Address::Unix(path) => return connect_unix(path, until).map(Self::Unix),
            Address::Tcp { host, port } => (host, *port),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host.as_str(), port).to_socket_addrs()? {
            let left = left(until);
            let prepared = TcpStream::connect_timeout(&address, left)
                .and_then(|stream| prepare(&stream, SILENT_S, SIGN_S).map(|()| Self::Tcp(stream)));
            match prepared {
                Ok(link) => return Ok(link),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Returns the socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }

    fn descriptor(&self) -> RawFd {
        self.socket().as_raw_fd()
    }

    /// Receives the bytes that have arrived or, with `wait`, waits for some. 0 bytes mean the end.
    pub fn receive(&self, into: &mut [u8], wait: bool) -> io::Result<usize> {
        let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
        again_if_interrupted(|| {
            // SAFETY: pointer and length describe `into`, writable and borrowed for the call; `self` keeps the
            // descriptor open.
            unsafe { libc::recv(self.descriptor(), into.as_mut_ptr().cast(), into.len(), flags) }
        })
    }

    /// Sends as many bytes as fit into the socket's buffer.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if the buffer is full.
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, libc::MSG_DONTWAIT)
    }

    fn send(&self, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
        again_if_interrupted(|| {
            let flags = flags | libc::MSG_NOSIGNAL;
            // SAFETY: pointer and length describe `bytes`, readable and borrowed for the call; `self` keeps the
            // descriptor open.
            unsafe { libc::send(self.descriptor(), bytes.as_ptr().cast(), bytes.len(), flags) }
        })
    }

    /// Waits until a requested condition holds, or until the connection ends.
    pub fn wait(&self, SocketWait { for_sending, for_receiving, timeout }: SocketWait) -> io::Result<()> {
        let events = if for_sending { libc::POLLOUT } else { 0 } | if for_receiving { libc::POLLIN } else { 0 };
        let whole_ms = |timeout: Duration| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        let timeout_ms = timeout.map_or(-1, whole_ms);
        let mut asked = libc::pollfd { fd: self.descriptor(), events, revents: 0 };
        again_if_interrupted(|| {
            // SAFETY: one initialised structure, borrowed for the call.
            unsafe { libc::poll(&raw mut asked, 1, timeout_ms) as isize }
        })
        .map(drop)
    }

    /// Ends the connection; threads that wait for it return.
    pub fn cut(&self) {
        // An error only means that the connection has ended already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Limits the time that one receive and one send may wait, during the handshake.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout)),
            Self::Tcp(stream) => stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout)),
        }
    }
}

/// Reads and writes the socket like a file. The handshake uses this, when no request is in flight.
impl Read for &Link {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive(into, true)
    }
}

impl Write for &Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, 0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the time left until `until`; never zero, which would mean no limit.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Connects to the socket at `path`. If the socket's backlog is full and its server accepts no client, std would wait
/// forever.
fn connect_unix(path: &Path, until: Instant) -> io::Result<UnixStream> {
    // This call reports a path that is too long; afterwards the path fits, with its zero.
    SocketAddr::from_pathname(path)?;
    let mut name = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    for (to, byte) in name.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = libc::c_char::from_ne_bytes([*byte]);
    }
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and no other value owns it.
    let stream = unsafe { UnixStream::from_raw_fd(socket) };
    let connected = again_if_interrupted(|| {
        // A socket accepts any limit except zero.
        let _ = stream.set_write_timeout(Some(left(until)));
        // SAFETY: one initialised structure of that size, borrowed for the call; `stream` keeps the descriptor open.
        unsafe {
            libc::connect(stream.as_raw_fd(), (&raw const name).cast(), size_of_val(&name) as libc::socklen_t) as isize
        }
    });
    match connected {
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "its server takes no connection"))
        }
        other => other.map(|_| stream),
    }
}

fn again_if_interrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(count) => return Ok(count),
            Err(_) => {
                let why = io::Error::last_os_error();
                if why.kind() != io::ErrorKind::Interrupted {
                    return Err(why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
