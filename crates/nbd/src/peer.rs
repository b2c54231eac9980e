//! A connection's stream with its two buffers.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_memory::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::budget::Budget;
use super::consts::REQUEST_BYTES;
use super::inbox::Inbox;
use super::lending::Lending;
use super::outbox::Outbox;
use super::spin::Spin;
use super::transport::Transport;
use super::waiting::Waiting;
use super::wire::{Malformed, Request};

/// Most bytes that each buffer of an idle connection may hold.
const IDLE_BYTES: usize = 512 << 10;
/// Replies are sent when this many bytes are gathered, even if more requests wait.
const GATHERED_BYTES: usize = 128 << 10;
/// Data of this size or more, in bytes, is sent from where it lies.
const SENT_ALONE_BYTES: usize = 32 << 10;
/// Number of bytes that are sent at once during the handshake.
const HANDSHAKE_PIECE_BYTES: usize = 4 << 10;
/// Time that an enlarged buffer is kept while no request arrives.
const ENLARGED: Duration = Duration::from_secs(1);

/// The reason why a connection ended before the client disconnected.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The client closed the connection, or the server is stopping.
    #[error("closed")]
    Closed,
    /// The stream failed.
    #[error("connection lost: {0}")]
    Lost(#[from] io::Error),
    /// The client sent a message after which its stream cannot be parsed.
    #[error("not NBD: {0}")]
    Malformed(#[from] Malformed),
    /// The client announced more bytes than the server ever receives.
    #[error("a message of {0} bytes is too long")]
    TooLong(u64),
    /// The handshake took too long.
    #[error("the client said nothing for too long")]
    Silent,
    /// The disk's queue failed.
    #[error("the disk's queue failed: {0}")]
    Queue(Error),
    /// The disk failed after the head of a reply was sent.
    #[error("the disk failed amid a reply")]
    Torn,
}

/// A stream with its buffers.
pub(super) struct Peer<'t> {
    transport: &'t mut dyn Transport,
    pub inbox: Inbox,
    pub outbox: Outbox,
    lending: Option<Lending>,
    /// True if lent data may be sent without a copy.
    borrows: bool,
    spin: Spin,
    deadline: Option<Instant>,
    shrinking: bool,
    waiting: Arc<Waiting>,
}

impl<'t> Peer<'t> {
    /// Creates the peer of a new connection. It polls for at most `spin` before it sleeps, and records the sleep in
    /// `waiting`.
    pub fn new(transport: &'t mut dyn Transport, spin: Duration, budget: Arc<Budget>, waiting: Arc<Waiting>) -> Self {
        Self {
            transport,
            inbox: Inbox::new(IDLE_BYTES),
            outbox: Outbox::new(IDLE_BYTES, budget),
            lending: None,
            borrows: true,
            spin: Spin::new(spin),
            deadline: None,
            shrinking: false,
            waiting,
        }
    }

    /// Requires that awaited bytes arrive before `deadline`, and that no send waits longer.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) -> Result<(), End> {
        self.deadline = deadline;
        self.arm_deadline()
    }

    fn arm_deadline(&mut self) -> Result<(), End> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(End::Silent);
        }
        Ok(self.transport.set_timeouts(left, left)?)
    }

    /// Returns true if the server requires TLS first (N10).
    pub fn insists_on_tls(&self) -> bool {
        self.transport.insists_on_tls()
    }

    /// Returns true if received bytes arrive under TLS.
    pub fn is_secured(&self) -> bool {
        self.transport.is_secured()
    }

    /// Sends the gathered bytes, then makes the TLS handshake. Bytes that arrived in the clear behind the request for
    /// TLS may come from an attacker, not from the client under TLS. So they end the connection (N11).
    pub fn start_tls(&mut self) -> Result<(), End> {
        self.flush()?;
        if !self.inbox.held().is_empty() {
            return Err(End::Malformed(Malformed::Early));
        }
        Ok(self.transport.start_tls(self.deadline)?)
    }

    /// Receives until `len` bytes are held. Sends the gathered bytes before it waits.
    pub fn need(&mut self, len: usize) -> Result<(), End> {
        while self.inbox.held().len() < len {
            self.flush()?;
            if self.deadline.is_some() {
                self.arm_deadline()?;
            }
            let got = self.receive(len)?;
            self.inbox.received(got);
        }
        Ok(())
    }

    fn receive(&mut self, needed_bytes: usize) -> Result<usize, End> {
        if let Some(got) = self.poll(needed_bytes)? {
            return Ok(got);
        }
        let waiting = Arc::clone(&self.waiting);
        waiting.during(|| self.wait_for_more(needed_bytes))
    }

    fn wait_for_more(&mut self, needed_bytes: usize) -> Result<usize, End> {
        loop {
            self.watch_size()?;
            match self.transport.receive(self.inbox.space(needed_bytes)) {
                Ok(0) => return Err(End::Closed),
                Ok(got) => return Ok(got),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if self.deadline.is_some() => return Err(End::Silent),
                Err(_) => self.shrink(needed_bytes),
            }
        }
    }

    /// Polls for bytes while polling pays.
    fn poll(&mut self, needed_bytes: usize) -> Result<Option<usize>, End> {
        let limit = self.spin.limit();
        if limit.is_zero() {
            return Ok(None);
        }
        let start = Instant::now();
        loop {
            match self.transport.try_receive(self.inbox.space(needed_bytes)) {
                Ok(0) => return Err(End::Closed),
                Ok(got) => {
                    self.spin.hit();
                    return Ok(Some(got));
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if start.elapsed() >= limit => {
                    self.spin.miss();
                    return Ok(None);
                }
                Err(_) => std::hint::spin_loop(),
            }
        }
    }

    /// Receives the bytes that have arrived, until `needed_bytes` are held, without waiting. Returns false if there are
    /// none.
    pub fn receive_at_once(&mut self, needed_bytes: usize) -> Result<bool, End> {
        match self.transport.try_receive(self.inbox.space(needed_bytes)) {
            Ok(0) => Err(End::Closed),
            Ok(got) => {
                self.inbox.received(got);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until bytes of the client have arrived, or until `other` is readable. The caller has received the bytes
    /// that arrived before: a stream under TLS may hold them.
    pub fn wait_beside(&self, other: BorrowedFd<'_>) -> Result<(), End> {
        let descriptors = [self.transport.descriptor(), other];
        let mut awaited = descriptors.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
        match poll(&mut awaited, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(End::Lost(error.into())),
        }
    }

    /// Limits the wait while a buffer is enlarged, so that an idle connection frees the memory (N3).
    fn watch_size(&mut self) -> Result<(), End> {
        let enlarged = self.inbox.is_enlarged() || self.outbox.is_enlarged();
        if self.deadline.is_none() && enlarged != self.shrinking {
            self.transport.set_timeouts(enlarged.then_some(ENLARGED), None)?;
            self.shrinking = enlarged;
        }
        Ok(())
    }

    fn shrink(&mut self, needed_bytes: usize) {
        self.outbox.shrink();
        if needed_bytes <= IDLE_BYTES {
            self.inbox.shrink();
        }
    }

    /// Sends the gathered bytes.
    pub fn flush(&mut self) -> Result<(), End> {
        if self.outbox.held().is_empty() {
            return Ok(());
        }
        match self.deadline {
            Some(_) => self.send_in_time()?,
            None => send(self.transport, &self.waiting, self.outbox.held())?,
        }
        if let Some(lending) = &self.lending {
            lending.note_sent(self.outbox.held().len());
        }
        self.outbox.truncate(0);
        Ok(())
    }

    /// Sends `bytes` behind the gathered bytes, or gathers them too if they are few.
    pub fn send_behind(&mut self, bytes: &[u8]) -> Result<(), End> {
        if bytes.len() < SENT_ALONE_BYTES {
            self.outbox.put(bytes);
            return Ok(());
        }
        self.flush()?;
        send(self.transport, &self.waiting, bytes)?;
        if let Some(lending) = &self.lending {
            lending.note_sent(bytes.len());
        }
        Ok(())
    }

    /// Returns the path for lent data, or `None` if the stream has no such path.
    pub fn lending(&mut self) -> Option<&mut Lending> {
        if self.borrows && self.lending.is_none() {
            // If no descriptor is left, everything is copied, like for remote clients.
            self.lending = self.transport.local().map(Lending::to).and_then(io::Result::ok);
            self.borrows = self.lending.is_some();
        }
        self.lending.as_mut().filter(|_| self.borrows)
    }

    /// Copies everything from now on: lent data of this disk cannot be sent without a copy.
    pub fn borrow_no_more(&mut self) {
        self.borrows = false;
    }

    /// Sends the gathered bytes, and the lent data behind them.
    pub fn send_lent(&mut self) -> Result<(), End> {
        self.flush()?;
        let Some(lending) = &mut self.lending else { return Ok(()) };
        Ok(self.waiting.during(|| lending.send())?)
    }

    /// Waits until the client has received the lent data, or is gone (N14).
    pub fn linger(&self) {
        if let Some(lending) = &self.lending {
            lending.linger();
        }
    }

    /// Sends the gathered bytes piece by piece, so that a client that receives byte by byte gets no extra time (N9).
    fn send_in_time(&mut self) -> Result<(), End> {
        let mut sent = 0;
        while sent < self.outbox.held().len() {
            self.arm_deadline()?;
            let piece = &self.outbox.held()[sent..];
            let piece = &piece[..piece.len().min(HANDSHAKE_PIECE_BYTES)];
            self.transport.send(piece)?;
            sent += piece.len();
        }
        Ok(())
    }

    /// Sends the gathered bytes if they are many.
    pub fn flush_if_full(&mut self) -> Result<(), End> {
        if self.outbox.held().len() >= GATHERED_BYTES { self.flush() } else { Ok(()) }
    }

    /// Returns the payload of a request that starts the inbox and is held whole.
    pub fn payload(&self, request: &Request) -> &[u8] {
        &self.inbox.held()[REQUEST_BYTES..][..request.payload_bytes()]
    }

    /// Receives `len` bytes and drops them, with bounded memory.
    pub fn discard(&mut self, mut len: usize) -> Result<(), End> {
        while len > 0 {
            self.need(1)?;
            let step = len.min(self.inbox.held().len());
            self.inbox.consume(step);
            len -= step;
        }
        Ok(())
    }

    /// Receives a field of `N` bytes.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], End> {
        self.need(N)?;
        let mut field = [0; N];
        field.copy_from_slice(&self.inbox.held()[..N]);
        self.inbox.consume(N);
        Ok(field)
    }
}

/// Sends all of `bytes`, at once if the client has room for them.
fn send(transport: &mut dyn Transport, waiting: &Waiting, bytes: &[u8]) -> io::Result<()> {
    let sent = transport.try_send(bytes)?;
    let rest = &bytes[sent..];
    if rest.is_empty() { Ok(()) } else { waiting.during(|| transport.send(rest)) }
}

#[cfg(test)]
mod tests;
