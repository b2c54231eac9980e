//! Sending lent data without a copy: the kernel puts references to the disk's pages into the socket, and the client's
//! receive makes the only copy.
//!
//! ```text
//! file --splice--> pipe --splice--> socket's queue --receive, by the client-->
//!      references, never waits      waits for the client       frees them
//! ```
//!
//! Data in the queue of a Unix socket counts as unsent until the client has received it, so the queue's length shows
//! which loans are over. This holds for clients that receive. A client that splices the stream on may see data that is
//! written later to the same place.
#![allow(unsafe_code)] // std has no splice and no queries of the state of sockets and pipes.

use std::io::{self, PipeReader, PipeWriter};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::{Borrower, Lent};

/// Longest piece of a reply that is sent at once, in bytes.
const LENT_MAX_BYTES: u64 = 256 << 10;
/// Wanted capacity of the pipe, in bytes: the longest piece, even if it starts and ends within pages.
const PIPE_BYTES: libc::c_int = 2 * LENT_MAX_BYTES as libc::c_int;
/// Wanted capacity of the socket's queue, in bytes (the kernel doubles it): a few pieces, so that the client need not
/// wait for the next one.
const QUEUE_BYTES: libc::c_int = 2 * LENT_MAX_BYTES as libc::c_int;
/// Size in bytes of the unit in which a pipe holds data.
const PAGE_BYTES: u64 = 4 << 10;
/// Interval between checks if a client that has ended has received everything, in milliseconds.
const LINGER_STEP_MS: libc::c_int = 20;

/// The path from files to one client. Dropping it ends the stream; a disk may keep the stream open to query how much
/// was received.
#[derive(Debug)]
pub(super) struct Lending {
    queue: Arc<Queue>,
    pipe: (PipeReader, PipeWriter),
    /// Capacity of the pipe at once, wherever in a page the data starts, in bytes.
    room_bytes: u64,
    /// Number of bytes in the pipe.
    filled_bytes: usize,
}

/// The record of the bytes that were sent and of those that the client has received.
#[derive(Debug)]
struct Queue {
    socket: UnixStream,
    /// Bytes sent so far; stored after they are in the queue.
    sent_bytes: AtomicU64,
}

/// A loan to a client. It is dropped when all its data is in the queue, or when no more of its data will be sent.
#[derive(Debug)]
pub(super) struct Loan {
    slip: Arc<Slip>,
}

/// The disk's handle on a loan.
#[derive(Debug)]
struct Slip {
    queue: Arc<Queue>,
    /// The loan is over when the client has received this number of bytes.
    end_bytes: AtomicU64,
}

impl Lending {
    /// Creates the path to the client at the other end of `socket`, a Unix socket.
    pub fn to(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let queue = Queue { socket: socket.try_clone_to_owned()?.into(), sent_bytes: AtomicU64::new(0) };
        let pipe = io::pipe()?;
        // If the kernel refuses either size, the capacity is smaller, and pieces may be shorter.
        set_queue_bytes(&queue.socket);
        let room_bytes = (set_pipe_bytes(&pipe.1) - PAGE_BYTES).min(LENT_MAX_BYTES);
        Ok(Self { queue: Arc::new(queue), pipe, room_bytes, filled_bytes: 0 })
    }

    /// Returns the most bytes that are sent at once.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Begins a loan.
    pub fn begin(&self) -> Loan {
        Loan { slip: Arc::new(Slip { queue: Arc::clone(&self.queue), end_bytes: AtomicU64::new(u64::MAX) }) }
    }

    /// Moves the `lent` data into the empty pipe. Returns the number of bytes, which may be fewer. Never waits for a
    /// client.
    pub fn fill(&mut self, lent: &Lent<'_>) -> io::Result<u64> {
        assert_eq!(self.filled_bytes, 0, "what was taken is not sent yet");
        self.filled_bytes = splice(&lent.file, Some(lent.at), &self.pipe.1, lent.len as usize)?;
        Ok(self.filled_bytes as u64)
    }

    /// Sends the content of the pipe.
    pub fn send(&mut self) -> io::Result<()> {
        while self.filled_bytes > 0 {
            let sent = splice(&self.pipe.0, None, &self.queue.socket, self.filled_bytes)?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.filled_bytes -= sent;
            self.note_sent(sent);
        }
        Ok(())
    }

    /// Records that `bytes` were sent.
    pub fn note_sent(&self, bytes: usize) {
        self.queue.sent_bytes.fetch_add(bytes as u64, Ordering::Release);
    }

    /// Waits until the client has received everything, or is gone.
    pub fn linger(&self) {
        while self.queue.untaken_bytes() > 0 && !is_hung_up_in(&self.queue.socket, LINGER_STEP_MS) {}
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        // An error on a stream that the client has ended already is harmless.
        let _ = self.queue.socket.shutdown(Shutdown::Both);
    }
}

impl Loan {
    /// Returns the borrower that is passed to the disk.
    pub fn borrower(&self) -> Arc<dyn Borrower> {
        self.slip.clone()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.slip.end_bytes.store(self.slip.queue.sent_bytes.load(Ordering::Acquire), Ordering::Release);
    }
}

impl Borrower for Slip {
    /// Returns true if the client has received the loan. The client has received every byte that was counted as sent
    /// before the query of the queue's length and is not in the queue. The length counts whole buffers, which are
    /// longer than their content.
    fn has_returned(&self) -> bool {
        let end = self.end_bytes.load(Ordering::Acquire);
        let sent = self.queue.sent_bytes.load(Ordering::Acquire);
        end <= sent && end <= sent.saturating_sub(self.queue.untaken_bytes())
    }
}

impl Queue {
    /// Returns the number of bytes that the client has not received yet, or slightly more.
    fn untaken_bytes(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one integer, which is borrowed for the call; the descriptor is open.
        let failed = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } != 0;
        if failed { u64::MAX } else { bytes as u64 }
    }
}

/// Moves up to `len` bytes between a pipe and another file without a copy; returns the number of bytes.
fn splice(from: &impl AsRawFd, at: Option<u64>, to: &impl AsRawFd, len: usize) -> io::Result<usize> {
    let mut at = at.map(|at| at as libc::loff_t);
    let at = at.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    loop {
        // SAFETY: the offset is a local that outlives the call, or none; the descriptors are open.
        let moved = unsafe { libc::splice(from.as_raw_fd(), at, to.as_raw_fd(), ptr::null_mut(), len, 0) };
        match usize::try_from(moved) {
            Ok(moved) => return Ok(moved),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn set_queue_bytes(socket: &UnixStream) {
    let (bytes, len) = (QUEUE_BYTES, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the option reads one integer, which is borrowed for the call; the descriptor is open.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const bytes).cast(), len) };
}

/// Enlarges the pipe, if the kernel allows it; returns its capacity.
fn set_pipe_bytes(pipe: &PipeWriter) -> u64 {
    // SAFETY: one command takes an integer, the other takes no argument; the descriptor is open.
    let bytes = unsafe {
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES);
        libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ)
    };
    u64::try_from(bytes).map_or(PAGE_BYTES, |bytes| bytes.max(PAGE_BYTES))
}

/// Returns true if the stream has ended both ways; waits for that up to `wait_ms`.
fn is_hung_up_in(socket: &UnixStream, wait_ms: libc::c_int) -> bool {
    let mut asked = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one entry, which is borrowed for the call; the descriptor is open.
    unsafe { libc::poll(&raw mut asked, 1, wait_ms) };
    asked.revents != 0
}
