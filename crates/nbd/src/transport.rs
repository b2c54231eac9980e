//! The interface below the protocol: a stream of bytes each way. Unix sockets are here, TCP is in another module.
#![allow(unsafe_code)] // recv and send with flags (do not wait, no SIGPIPE) and shutdown by descriptor are not in std.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection's stream of bytes.
///
/// An error means that the stream has failed, except [`io::ErrorKind::WouldBlock`] if no bytes were received.
pub trait Transport: Send {
    /// Receives the bytes that have arrived, or waits for some; 0 bytes mean that the peer ended.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if a timeout is set and has passed; other errors mean what [`Transport`]
    /// says.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Receives the bytes that have arrived, without waiting.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if no bytes have arrived; other errors mean what [`Transport`] says.
    fn try_receive(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// Returns an error if the stream has failed.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Sends the part of `bytes` that can be sent without waiting, if that is known; returns its length.
    ///
    /// # Errors
    /// Returns an error if the stream has failed.
    fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = bytes;
        Ok(0)
    }

    /// Limits the time that one receive and one send may wait.
    ///
    /// # Errors
    /// Returns the error of the system.
    fn set_timeouts(&mut self, receive: Option<Duration>, send: Option<Duration>) -> io::Result<()>;

    /// Returns the socket, which is readable when bytes have arrived or the peer has ended.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Returns a handle by which another thread ends the stream.
    ///
    /// # Errors
    /// Returns the error of the system: no descriptor may be left.
    fn hangup(&self) -> io::Result<Hangup>;

    /// Returns the stream's Unix socket if no layer lies in between: lent data can be sent on it.
    fn local(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns true if the stream requires TLS first (N10).
    fn insists_on_tls(&self) -> bool {
        false
    }

    /// Returns true if TLS has been started.
    fn is_secured(&self) -> bool {
        false
    }

    /// Makes the TLS handshake, at most until `until`; later bytes each way are under TLS.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`] if the stream has no TLS; otherwise the failure of the handshake, after
    /// which the stream is unusable.
    fn start_tls(&mut self, until: Option<Instant>) -> io::Result<()> {
        let _ = until;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A handle that ends a stream from another thread.
#[derive(Debug)]
pub struct Hangup(OwnedFd);

impl Hangup {
    /// Creates the handle that ends the stream of this socket.
    pub(super) fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Stops receiving: only bytes that have arrived are received; replies can still be sent.
    pub fn stop_receiving(&self) {
        self.shut_down(libc::SHUT_RD);
    }

    /// Stops receiving and sending; a waiting thread returns.
    pub fn cut(&self) {
        self.shut_down(libc::SHUT_RDWR);
    }

    fn shut_down(&self, how: libc::c_int) {
        // SAFETY: shutdown takes a descriptor, which `self` keeps open, and a constant. An error on a stream that the
        // peer has ended already is harmless.
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

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn local(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// Receives by `recv` with flags.
pub(super) fn receive_with(stream: &impl AsRawFd, into: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    again_if_interrupted(|| {
        // SAFETY: the pointer and length describe `into`, writable and borrowed for the call; the descriptor is open.
        unsafe { libc::recv(stream.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) }
    })
}

/// Sends some of `bytes` by `send` with flags, without raising a signal.
pub(super) fn send_with(stream: &impl AsRawFd, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    let sent = again_if_interrupted(|| {
        let flags = flags | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and length describe `bytes`, readable and borrowed for the call; the descriptor is open.
        unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) }
    })?;
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(sent) }
}

/// Sends the bytes that can be sent without waiting.
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
