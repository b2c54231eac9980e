//! Sending what a disk lends from where it lies: the kernel puts references to its pages into the socket, and the
//! client's receive is the only copy there is.
//!
//! ```text
//! file --splice--> pipe --splice--> socket's queue --receive, by the client-->
//!      references, never waits      waits for the client       frees them
//! ```
//!
//! What is in the queue of a Unix socket counts as unsent until the client has received it, so the queue's length tells
//! which loans are over. That holds for clients that receive; one that splices the stream on may see what is written
//! later to the same place.
#![allow(unsafe_code)] // splice, and what the kernel tells of sockets and pipes, are not in std.

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
/// What the pipe should hold, in bytes: the longest piece, also where it starts and ends within pages.
const PIPE_BYTES: libc::c_int = 2 * LENT_MAX_BYTES as libc::c_int;
/// What the queue of the socket should hold, in bytes (the kernel doubles it): a few pieces, so that the client need not
/// wait for the next one.
const QUEUE_BYTES: libc::c_int = 2 * LENT_MAX_BYTES as libc::c_int;
/// The unit in which a pipe holds what it was given.
const PAGE_BYTES: u64 = 4 << 10;
/// How often it is looked whether a client that has ended has taken everything.
const LINGER_STEP_MS: libc::c_int = 20;

/// The way from files to one client. Dropped, it ends the stream, which a disk may keep open to ask what was taken.
#[derive(Debug)]
pub(super) struct Lending {
    queue: Arc<Queue>,
    pipe: (PipeReader, PipeWriter),
    /// What the pipe takes at once, wherever in a page it starts.
    room_bytes: u64,
    /// In the pipe.
    filled_bytes: usize,
}

/// What was sent, and what of it the client has taken.
#[derive(Debug)]
struct Queue {
    socket: UnixStream,
    /// Bytes sent so far; stored after they are in the queue.
    sent_bytes: AtomicU64,
}

/// A loan to a client. Dropped when all of it is in the queue, or nothing more of it will be.
#[derive(Debug)]
pub(super) struct Loan {
    slip: Arc<Slip>,
}

/// What the disk keeps of a loan.
#[derive(Debug)]
struct Slip {
    queue: Arc<Queue>,
    /// It is over when so many bytes have been taken.
    end_bytes: AtomicU64,
}

impl Lending {
    /// To the client at the other end of `socket`, a Unix one.
    pub fn to(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let queue = Queue { socket: socket.try_clone_to_owned()?.into(), sent_bytes: AtomicU64::new(0) };
        let pipe = io::pipe()?;
        // Where either is refused it is smaller, and pieces may be with it.
        set_queue_bytes(&queue.socket);
        let room_bytes = (set_pipe_bytes(&pipe.1) - PAGE_BYTES).min(LENT_MAX_BYTES);
        Ok(Self { queue: Arc::new(queue), pipe, room_bytes, filled_bytes: 0 })
    }

    /// Most bytes that are sent at once.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Begins a loan.
    pub fn begin(&self) -> Loan {
        Loan { slip: Arc::new(Slip { queue: Arc::clone(&self.queue), end_bytes: AtomicU64::new(u64::MAX) }) }
    }

    /// Takes what is `lent` into the empty pipe; how many bytes, which may be fewer. Waits for no client.
    pub fn fill(&mut self, lent: &Lent<'_>) -> io::Result<u64> {
        assert_eq!(self.filled_bytes, 0, "what was taken is not sent yet");
        self.filled_bytes = splice(&lent.file, Some(lent.at), &self.pipe.1, lent.len as usize)?;
        Ok(self.filled_bytes as u64)
    }

    /// Sends what is in the pipe.
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

    /// Notes that `bytes` were sent.
    pub fn note_sent(&self, bytes: usize) {
        self.queue.sent_bytes.fetch_add(bytes as u64, Ordering::Release);
    }

    /// Waits until the client has taken everything, or is gone.
    pub fn linger(&self) {
        while self.queue.untaken_bytes() > 0 && !is_hung_up_in(&self.queue.socket, LINGER_STEP_MS) {}
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        // That it fails on a stream which the client has ended already is what is wanted.
        let _ = self.queue.socket.shutdown(Shutdown::Both);
    }
}

impl Loan {
    /// Who the disk is told to lend to.
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
    /// What was counted as sent before the queue's length was asked for, and is not in it, was taken. The length counts
    /// whole buffers, which are longer than what is in them.
    fn has_returned(&self) -> bool {
        let end = self.end_bytes.load(Ordering::Acquire);
        let sent = self.queue.sent_bytes.load(Ordering::Acquire);
        end <= sent && end <= sent.saturating_sub(self.queue.untaken_bytes())
    }
}

impl Queue {
    /// Bytes that the client has not taken yet, or somewhat more.
    fn untaken_bytes(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one integer, which is borrowed for the call; the descriptor is open.
        let failed = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } != 0;
        if failed { u64::MAX } else { bytes as u64 }
    }
}

/// Moves up to `len` bytes between a pipe and something else without a copy; how many.
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

/// Enlarges the pipe, if that is allowed; how much it holds.
fn set_pipe_bytes(pipe: &PipeWriter) -> u64 {
    // SAFETY: the commands take an integer and none; the descriptor is open.
    let bytes = unsafe {
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES);
        libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ)
    };
    u64::try_from(bytes).map_or(PAGE_BYTES, |bytes| bytes.max(PAGE_BYTES))
}

/// Whether the stream has ended both ways, waiting for it so long.
fn is_hung_up_in(socket: &UnixStream, wait_ms: libc::c_int) -> bool {
    let mut asked = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one entry, which is borrowed for the call; the descriptor is open.
    unsafe { libc::poll(&raw mut asked, 1, wait_ms) };
    asked.revents != 0
}
