//! The listening sockets of a server: here a Unix socket, its takeover from a dead server, and its removal at the end.
#![allow(unsafe_code)] // With std other users could connect between the bind and the change of the mode.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use ferrite_memory::place_socket;

use super::transport::Transport;

/// Number of connections that may wait to be accepted.
const BACKLOG: libc::c_int = 128;

/// The reason why the server cannot listen on a socket.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another server answers on the socket.
    #[error("{0}: another server answers on this socket; stop it, or choose another path")]
    Busy(PathBuf),
    /// The path is not a socket.
    #[error("{0}: exists and is not a socket; choose another path")]
    NotSocket(PathBuf),
    /// The path does not fit a socket address.
    #[error("{0}: too long for a socket (at most 107 bytes); choose another path")]
    TooLong(PathBuf),
    /// The system refused a call.
    #[error("{path}: cannot listen there: {source}", path = .path.display())]
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The system refused an address.
    #[error("{address}: cannot listen there: {source}")]
    Address {
        /// The address and port.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
}

/// The origin of a door's clients. Each origin has its own places, so that idle or half-open clients of the network
/// never exclude a client of this machine (N13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Local,
    Network,
}

/// A listening socket.
pub(super) trait Door: Send + Sync {
    /// Waits for a client; returns `None` if the client was rejected.
    fn accept(&self) -> io::Result<Option<Box<dyn Transport>>>;

    /// Returns the origin whose places the clients use.
    fn reach(&self) -> Reach;

    /// Stops accepting; a thread in [`Door::accept`] returns with an error.
    fn close(&self);
}

/// A listening socket and its path; dropping it removes the path.
#[derive(Debug)]
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file, so that only this server's file is removed.
    file: (u64, u64),
}

impl Listener {
    /// Listens on `path` with mode 0600. An existing socket is removed if no server answers on it.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        Address::new(path).ok_or_else(|| ListenError::TooLong(path.into()))?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ListenError::Busy(path.into()),
            io::ErrorKind::AlreadyExists => ListenError::NotSocket(path.into()),
            _ => ListenError::Io { path: path.into(), source },
        };
        let (socket, file) = place_socket(path, |fresh| {
            listen(&Address::new(fresh).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?)
        })
        .map_err(failed)?;
        Ok(Self { socket, path: path.into(), file })
    }
}

impl Door for Listener {
    fn accept(&self) -> io::Result<Option<Box<dyn Transport>>> {
        self.socket.accept().map(|(stream, _)| Some(Box::new(stream) as Box<dyn Transport>))
    }

    fn reach(&self) -> Reach {
        Reach::Local
    }

    /// Stops listening, and removes the path if it still names this socket.
    fn close(&self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            // Another process may remove the path at the same time, which is harmless.
            let _ = std::fs::remove_file(&self.path);
        }
        // SAFETY: a descriptor that `self` keeps open and a constant.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

struct Address {
    address: libc::sockaddr_un,
    len: libc::socklen_t,
}

impl Address {
    fn new(path: &Path) -> Option<Self> {
        let bytes = path.as_os_str().as_bytes();
        // SAFETY: all zeros is a valid sockaddr_un.
        let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        if bytes.is_empty() || bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
            return None;
        }
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let len = mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
        Some(Self { address, len: len as libc::socklen_t })
    }
}

/// Listens on `address`. The mode is set on the socket before it is bound, so that its file never exists with a wider
/// mode.
fn listen(Address { address, len }: &Address) -> io::Result<UnixListener> {
    // SAFETY: constants only.
    let fd = done(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just opened and no other value owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an open descriptor and a constant.
    done(unsafe { libc::fchmod(socket.as_raw_fd(), 0o600) })?;
    // SAFETY: `address` is initialised and at least `len` bytes long.
    done(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(address).cast(), *len) })?;
    // SAFETY: an open descriptor and a constant.
    done(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(socket.into())
}

fn done(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests;
