//! Frames in both directions over one connection.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ferrite_pool::PidFd;
use ferrite_pool::time_limit::{TimeLimit, poll_entry};

use super::wire::{self, DecodedFrame, WireMessage};
use super::{Error, Result, passed_fds};

/// Most bytes that are read from the socket at once: memory grows with the bytes that arrived, not with the announced length.
const CHUNK_BYTES: usize = 64 << 10;

/// Polls for an answer before a client sleeps: they take about as long as waking a thread on another processor, which the
/// host of a virtual machine has to start first. An owner does not poll: it would use the processor that its clients need.
const LOOKS: u32 = 100;

/// A received frame, with its descriptors.
#[derive(Debug)]
pub(super) struct ReceivedFrame {
    pub message: WireMessage,
    pub fds: Vec<OwnedFd>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct FrameChannel {
    socket: UnixStream,
    /// Becomes readable when the owner stops.
    stop: Option<Arc<OwnedFd>>,
    /// The other side's process. When it has ended and nothing is left to read, the connection ends, even if a child holds
    /// the socket open (O7).
    process: Option<PidFd>,
    /// The rest of a progress frame that did not fit the socket.
    unsent: Vec<u8>,
}

impl FrameChannel {
    /// The owner's end.
    pub fn to_client(socket: OwnedFd, process: PidFd, stop: Arc<OwnedFd>) -> Self {
        Self { socket: socket.into(), stop: Some(stop), process: Some(process), unsent: Vec::new() }
    }

    /// The client's end.
    pub fn to_owner(socket: OwnedFd, process: Option<PidFd>) -> Self {
        Self { socket: socket.into(), stop: None, process, unsent: Vec::new() }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives the next frame: its first byte within `first`, the rest within `rest`. Returns `None` if the other side closed
    /// or ended, or if the owner stops.
    pub fn receive(&mut self, first: TimeLimit, rest: TimeLimit) -> Result<Option<ReceivedFrame>> {
        let (mut bytes, mut fds, mut limit) = (Vec::new(), Vec::new(), first);
        let mut is_there = false;
        loop {
            let missing = match wire::decode(&bytes)? {
                DecodedFrame::Whole { message, .. } => return Ok(Some(ReceivedFrame { message, fds })),
                DecodedFrame::More(missing) => missing,
            };
            if !is_there && !self.await_input(&mut limit)? {
                return Ok(None);
            }
            if bytes.is_empty() {
                limit = rest;
            }
            // Never past the frame's end: descriptors found there would belong to the next one.
            let (old, step) = (bytes.len(), missing.min(CHUNK_BYTES));
            bytes.resize(old + step, 0);
            let got = match passed_fds::receive(self.socket(), &mut bytes[old..], &mut fds) {
                Ok(0) => return Ok(None),
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
                Err(e) if is_end(&e) => return Ok(None),
                Err(e) => return Err(Error::io("reading from the control socket", e)),
            };
            bytes.truncate(old + got);
            // The rest of a frame has mostly arrived with its beginning.
            is_there = got > 0;
        }
    }

    /// Waits for bytes to read. Returns false if the connection is over, or the owner stops.
    fn await_input(&self, limit: &mut TimeLimit) -> Result<bool> {
        let mut asked = vec![poll_entry(&self.socket, libc::POLLIN)];
        asked.extend(self.stop.as_ref().map(|stop| poll_entry(stop, libc::POLLIN)));
        asked.extend(self.process.as_ref().map(|process| poll_entry(process, libc::POLLIN)));
        let looks = if self.stop.is_none() { LOOKS } else { 0 };
        match poll(&mut asked, looks).and_then(|is_there| Ok(is_there || limit.wait(&mut asked)?)) {
            Ok(true) => {}
            Ok(false) => return Err(Error::Timeout("a message".into())),
            Err(e) => return Err(Error::io("waiting on the control socket", e)),
        }
        let stopped = self.stop.is_some() && asked[1].revents != 0;
        Ok(asked[0].revents != 0 && !stopped)
    }

    /// Sends a frame with `fds` on it, within `limit`.
    pub fn send(&mut self, message: &WireMessage, fds: &[BorrowedFd<'_>], mut limit: TimeLimit) -> Result<()> {
        let bytes = wire::encode(message)?;
        let rest = std::mem::take(&mut self.unsent);
        self.write(&rest, &[], &mut limit)?;
        self.write(&bytes, fds, &mut limit)
    }

    fn write(&self, mut bytes: &[u8], mut fds: &[BorrowedFd<'_>], limit: &mut TimeLimit) -> Result<()> {
        while !bytes.is_empty() {
            match passed_fds::send(self.socket(), bytes, fds) {
                Ok(took) => (bytes, fds) = (&bytes[took..], &[]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.await_room(limit)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("writing to the control socket", e)),
            }
        }
        Ok(())
    }

    fn await_room(&self, limit: &mut TimeLimit) -> Result<()> {
        match limit.wait(&mut [poll_entry(&self.socket, libc::POLLOUT)]) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Timeout("the other side's reading".into())),
            Err(e) => Err(Error::io("waiting on the control socket", e)),
        }
    }

    /// Sends `message` if it fits the socket now, else drops it: a client that watches work never delays the work (O4).
    pub fn offer(&mut self, message: &WireMessage) {
        if self.unsent.is_empty() {
            self.unsent = wire::encode(message).unwrap_or_default();
            self.push();
        } else {
            self.push();
        }
    }

    fn push(&mut self) {
        while let Ok(took @ 1..) = passed_fds::send(self.socket(), &self.unsent, &[]) {
            self.unsent.drain(..took);
        }
    }

    /// Ends the connection at once, for both sides.
    pub fn shut(&self) {
        // It fails only if the other side has ended the connection already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Returns true if the other side has ended the connection or the owner stops: a long call need not be finished.
    pub fn is_over(&self) -> bool {
        let mut asked = vec![poll_entry(&self.socket, libc::POLLRDHUP)];
        asked.extend(self.stop.as_ref().map(|stop| poll_entry(stop, libc::POLLIN)));
        asked.extend(self.process.as_ref().map(|process| poll_entry(process, libc::POLLIN)));
        TimeLimit::none().wait(&mut asked).unwrap_or(true)
    }
}

/// Returns true if one of `asked` is ready within `looks` polls. Other threads may run between two polls.
fn poll(asked: &mut [libc::pollfd], looks: u32) -> io::Result<bool> {
    for _ in 0..looks {
        if TimeLimit::none().wait(asked)? {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

/// Returns true if `error` only says that the other side has closed the connection.
pub(super) fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof)
}
