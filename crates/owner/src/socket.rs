//! Unix sockets: the few system calls that the standard library has no words for.
//!
//! Unsafe because binding without listening, connecting with a time limit, and asking for the peer's identity are
//! plain system calls with pointers to buffers of ours.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Connections that the kernel queues.
const BACKLOG: c_int = 128;
/// Time that connecting waits for room in that queue, in seconds.
const CONNECT_S: libc::time_t = 5;

/// The process at the other end, as it was when it connected (or, from a client's side, began to listen).
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketPeer {
    pub pid: u32,
    pub uid: u32,
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn new() -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was made above, and no other owner of it exists.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: all zeros is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, "not a path for a socket"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(address)
}

const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_un>() as libc::socklen_t;

/// Returns a socket bound to `path` with mode 0600; no process can connect to it before [`listen`]. The mode is set before the
/// socket has a name: a user who may write to the folder could replace the name by a link to another user's file.
pub(super) fn bind(path: &Path) -> io::Result<OwnedFd> {
    let (socket, address) = (new()?, address(path)?);
    // SAFETY: no pointer is passed.
    check(unsafe { libc::fchmod(socket.as_raw_fd(), 0o600) })?;
    // SAFETY: `address` is a whole sockaddr_un with a final zero, and outlives the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), ADDRESS_BYTES) })?;
    Ok(socket)
}

/// Starts to listen on `socket`. Accepting from it never waits.
pub(super) fn listen(socket: &OwnedFd) -> io::Result<()> {
    never_wait(socket)?;
    // SAFETY: no pointer is passed.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) }).map(drop)
}

/// Accepts the next connection; the error is `WouldBlock` if none waits.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: null pointers ask for no address.
    let fd = check(unsafe { libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) })?;
    // SAFETY: the descriptor was made above, and no other owner of it exists.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects to the socket at `path`; reads and writes on the result never wait.
pub(super) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let (socket, address) = (new()?, address(path)?);
    // A stopped owner with a full queue would hold a plain connect for ever.
    let limit = libc::timeval { tv_sec: CONNECT_S, tv_usec: 0 };
    set(&socket, libc::SO_SNDTIMEO, &limit)?;
    // SAFETY: `address` is a whole sockaddr_un with a final zero, and outlives the call.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), ADDRESS_BYTES) })?;
    never_wait(&socket)?;
    Ok(socket)
}

/// Returns the process at the other end.
pub(super) fn peer(socket: BorrowedFd<'_>) -> io::Result<SocketPeer> {
    // SAFETY: all zeros is a valid ucred.
    let cred: libc::ucred = get(socket, libc::SO_PEERCRED, unsafe { mem::zeroed() })?;
    Ok(SocketPeer { pid: u32::try_from(cred.pid).unwrap_or(0), uid: cred.uid })
}

/// A descriptor of the process at the other end (Linux 6.5 and later).
pub(super) fn peer_process(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let fd: c_int = get(socket, libc::SO_PEERPIDFD, -1)?;
    // SAFETY: the kernel has just made this descriptor for us, close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(check(fd)?) })
}

fn never_wait(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: no pointer is passed.
    let flags = check(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no pointer is passed.
    check(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

fn set<T>(socket: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe a live value that the kernel only reads.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const *value).cast(), len) })
        .map(drop)
}

/// Only for plain C values, every bit pattern of which is valid.
fn get<T: Copy>(socket: BorrowedFd<'_>, option: c_int, mut value: T) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a live value of that size, and any bytes are valid for it.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw mut value).cast(), &raw mut len)
    })?;
    Ok(value)
}
