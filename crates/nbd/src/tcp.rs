//! A TCP connection, plain or secured, and the socket that accepts them.
#![allow(unsafe_code)] // Keepalive's times and the shutdown of a listening socket are not in std.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::listener::{Door, ListenError, Reach};
use super::network::Network;
use super::tls::{Secured, Tls};
use super::transport::{Hangup, Transport, receive_with, send_at_once, send_with};

/// Time in seconds after which a silent peer counts as gone.
const SILENT_S: libc::c_int = 60;
/// Interval in seconds between keepalive probes to a silent peer.
const SIGN_S: libc::c_int = 15;

/// The clients that may connect over TCP, and their encryption.
#[derive(Clone, Debug, Default)]
pub struct TcpOptions {
    /// The allowed networks; other clients are rejected. If empty, every client that can reach the address may connect.
    pub allow: Vec<Network>,
    /// Requires TLS with this certificate: the server answers nothing else before it (N10).
    pub tls: Option<Tls>,
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct TcpDoor {
    socket: TcpListener,
    options: TcpOptions,
    address: SocketAddr,
}

impl TcpDoor {
    /// Listens on `address`; port 0 selects a free port.
    pub fn bind(address: SocketAddr, options: TcpOptions) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Address { address, source };
        let socket = TcpListener::bind(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, options, address })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn lets_in(&self, peer: SocketAddr) -> bool {
        self.options.allow.is_empty() || self.options.allow.iter().any(|network| network.contains(peer.ip()))
    }

    /// Prepares the stream of a client. Returns `None` if that fails, because the client has gone already: this ends
    /// only that client.
    fn welcome(&self, stream: TcpStream) -> Option<Box<dyn Transport>> {
        prepare(&stream, SILENT_S, SIGN_S).ok()?;
        Some(Box::new(TcpTransport { stream, tls: self.options.tls.clone(), secured: None, timeout: None }))
    }
}

impl Door for TcpDoor {
    /// Accepts a client whose address is allowed (N12).
    fn accept(&self) -> io::Result<Option<Box<dyn Transport>>> {
        let (stream, peer) = self.socket.accept()?;
        Ok(if self.lets_in(peer) { self.welcome(stream) } else { None })
    }

    fn reach(&self) -> Reach {
        Reach::Network
    }

    fn close(&self) {
        // SAFETY: a descriptor that `self` keeps open and a constant.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

/// Prepares a stream: sent bytes are not held back, and a peer that is gone is noticed after `silent_s` seconds. Probes
/// are sent every `sign_s` seconds, so a half-open connection ends.
pub(crate) fn prepare(stream: &TcpStream, silent_s: libc::c_int, sign_s: libc::c_int) -> io::Result<()> {
    stream.set_nodelay(true)?;
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, sign_s),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, sign_s),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, silent_s * 1000),
    ] {
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value is an initialised c_int of that length, borrowed for the call; the descriptor is open.
        let done = unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const value).cast(), len) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A TCP connection.
struct TcpTransport {
    stream: TcpStream,
    /// The certificate, if TLS is required first.
    tls: Option<Tls>,
    secured: Option<Secured>,
    /// The limit of a receive.
    timeout: Option<Duration>,
}

impl TcpTransport {
    fn receive_flagged(&mut self, into: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        let Self { stream, secured, timeout, .. } = self;
        let Some(secured) = secured else { return receive_with(stream, into, flags) };
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut is_limited = false;
        let got = secured.receive(stream, into, flags, || {
            is_limited = until.is_some();
            if is_limited { limit(stream, until) } else { Ok(()) }
        });
        if is_limited {
            stream.set_read_timeout(*timeout)?;
        }
        got
    }
}

/// Limits the next receive to the time left until `until`.
fn limit(stream: &TcpStream, until: Option<Instant>) -> io::Result<()> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    stream.set_read_timeout(left)
}

impl Transport for TcpTransport {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive_flagged(into, 0)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive_flagged(into, libc::MSG_DONTWAIT)
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if let Some(secured) = &mut self.secured {
            return secured.send(&self.stream, bytes);
        }
        while !bytes.is_empty() {
            let sent = send_with(&self.stream, bytes, 0)?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_secured() { Ok(0) } else { send_at_once(&self.stream, bytes) }
    }

    fn set_timeouts(&mut self, receive: Option<Duration>, send: Option<Duration>) -> io::Result<()> {
        self.timeout = receive;
        self.stream.set_read_timeout(receive)?;
        self.stream.set_write_timeout(send)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn hangup(&self) -> io::Result<Hangup> {
        Ok(Hangup::of(self.stream.as_fd().try_clone_to_owned()?))
    }

    fn insists_on_tls(&self) -> bool {
        self.tls.is_some() && self.secured.is_none()
    }

    fn is_secured(&self) -> bool {
        self.secured.is_some()
    }

    fn start_tls(&mut self, until: Option<Instant>) -> io::Result<()> {
        let tls = self.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let secured = Secured::shake_hands(tls, &self.stream, until, |until| limit(&self.stream, until))?;
        self.secured = Some(secured);
        self.stream.set_read_timeout(self.timeout)
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        if let Some(secured) = &mut self.secured {
            secured.say_goodbye(&self.stream);
        }
    }
}

#[cfg(test)]
mod tests;
