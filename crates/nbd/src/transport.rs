//! The seam below the protocol: a stream of bytes each way. Unix sockets here, TCP beside.
#![allow(unsafe_code)] // recv and send with flags (do not wait, no SIGPIPE) and shutdown by descriptor are not in std.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection's stream of bytes.
///
/// An error means that the stream has failed, but for [`io::ErrorKind::WouldBlock`] where nothing was received.
pub trait Transport: Send {
    /// Receives what is there, or waits for some; 0 bytes mean that the peer ended. With a timeout set and passed it
    /// fails with [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// As [`Transport`] says.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Receives what is there; fails with [`io::ErrorKind::WouldBlock`] where nothing is.
    ///
    /// # Errors
    /// As [`Transport`] says.
    fn try_receive(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// As [`Transport`] says.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Sends what of `bytes` can be sent without waiting, if that is known; how many.
    ///
    /// # Errors
    /// As [`Transport`] says.
    fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = bytes;
        Ok(0)
    }

    /// Limits how long one receive and one send may wait.
    ///
    /// # Errors
    /// What the system says.
    fn set_timeouts(&mut self, receive: Option<Duration>, send: Option<Duration>) -> io::Result<()>;

    /// A handle by which another thread ends the stream.
    ///
    /// # Errors
    /// What the system says: no descriptor may be left.
    fn hangup(&self) -> io::Result<Hangup>;

    /// The Unix socket that it is, with nothing in between: what is lent can be sent on it.
    fn local(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether TLS has to come before anything else (N10).
    fn insists_on_tls(&self) -> bool {
        false
    }

    /// Whether TLS has been started.
    fn is_secured(&self) -> bool {
        false
    }

    /// Shakes hands, at most until `until`; what is received and sent after it is under TLS.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there is no TLS; else what the handshake failed for, and the stream is of
    /// no more use.
    fn start_tls(&mut self, until: Option<Instant>) -> io::Result<()> {
        let _ = until;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Ends a stream from another thread.
#[derive(Debug)]
pub struct Hangup(OwnedFd);

impl Hangup {
    /// Ends the stream of this socket.
    pub(super) fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// No more is received than what is there; replies can still be sent.
    pub fn stop_receiving(&self) {
        self.shut_down(libc::SHUT_RD);
    }

    /// Nothing is received or sent any more; a waiting thread returns.
    pub fn cut(&self) {
        self.shut_down(libc::SHUT_RDWR);
    }

    fn shut_down(&self, how: libc::c_int) {
        // SAFETY: shutdown takes a descriptor, which `self` keeps open, and a constant. That it fails on a stream
        // which the peer has ended already is what is wanted.
        unsafe { libc::shutdown(self.0.as_raw_fd(), how) };
    }
}

impl Transport for UnixStream {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        receive_with(self, into, 0)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        receive_with(self, into, libc::MSG_DONTWAIT)
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = send_with(self, bytes, 0)?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send_at_once(self, bytes)
    }

    fn set_timeouts(&mut self, receive: Option<Duration>, send: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(receive)?;
        self.set_write_timeout(send)
    }

    fn hangup(&self) -> io::Result<Hangup> {
        Ok(Hangup(self.as_fd().try_clone_to_owned()?))
    }

    fn local(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// Receives by `recv` with flags.
pub(super) fn receive_with(stream: &impl AsRawFd, into: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    again_if_interrupted(|| {
        // SAFETY: the pointer and length are those of `into`, writable and borrowed for the call; the descriptor is open.
        unsafe { libc::recv(stream.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) }
    })
}

/// Sends some of `bytes` by `send` with flags, and never by a signal.
pub(super) fn send_with(stream: &impl AsRawFd, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    let sent = again_if_interrupted(|| {
        let flags = flags | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and length are those of `bytes`, readable and borrowed for the call; the descriptor is open.
        unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) }
    })?;
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(sent) }
}

/// Sends what can be sent without waiting.
pub(super) fn send_at_once(stream: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    match send_with(stream, bytes, libc::MSG_DONTWAIT) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        sent => sent,
    }
}

fn again_if_interrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(count) => return Ok(count),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
