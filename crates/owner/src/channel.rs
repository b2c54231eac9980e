//! Frames in both directions over one connection.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ferrite_pool::PidFd;
use ferrite_pool::patience::{Patience, ask};

use super::wire::{self, Decoded, Message};
use super::{Error, Result, rights};

/// Most bytes taken from the socket at once, so that memory grows with what came and not with what was announced.
const CHUNK_BYTES: usize = 64 << 10;

/// Looks that a client takes for an answer before it sleeps: for about as long as it takes to wake a thread on another
/// processor, which the host of a virtual machine has to start first. An owner that looked for the next call would take
/// that processor from the threads of who called.
const LOOKS: u32 = 100;

/// A frame that came, with the descriptors on it.
#[derive(Debug)]
pub(super) struct Frame {
    pub message: Message,
    pub fds: Vec<OwnedFd>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    /// Becomes readable when we shall stop waiting for the other side.
    stop: Option<Arc<OwnedFd>>,
    /// The other side's process; when it has ended and left nothing to read, the connection ends even if a child
    /// holds it open (O7).
    process: Option<PidFd>,
    /// The rest of a progress frame that the socket did not take yet.
    unsent: Vec<u8>,
}

impl Channel {
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

    /// The next frame: its first byte within `first`, the rest within `rest`. `None` when there will be none: the
    /// other side closed or ended, or we shall stop.
    pub fn receive(&mut self, first: Patience, rest: Patience) -> Result<Option<Frame>> {
        let (mut bytes, mut fds, mut patience) = (Vec::new(), Vec::new(), first);
        let mut is_there = false;
        loop {
            let missing = match wire::decode(&bytes)? {
                Decoded::Whole { message, .. } => return Ok(Some(Frame { message, fds })),
                Decoded::More(missing) => missing,
            };
            if !is_there && !self.await_input(&mut patience)? {
                return Ok(None);
            }
            if bytes.is_empty() {
                patience = rest;
            }
            // Never past the frame's end: descriptors found there would belong to the next one.
            let (old, step) = (bytes.len(), missing.min(CHUNK_BYTES));
            bytes.resize(old + step, 0);
            let got = match rights::receive(self.socket(), &mut bytes[old..], &mut fds) {
                Ok(0) => return Ok(None),
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
                Err(e) if is_end(&e) => return Ok(None),
                Err(e) => return Err(Error::io("reading from the control socket", e)),
            };
            bytes.truncate(old + got);
            // The rest of a frame mostly is where its beginning was.
            is_there = got > 0;
        }
    }

    /// Waits for something to read; false when we shall not wait any more.
    fn await_input(&self, patience: &mut Patience) -> Result<bool> {
        let mut asked = vec![ask(&self.socket, libc::POLLIN)];
        asked.extend(self.stop.as_ref().map(|stop| ask(stop, libc::POLLIN)));
        asked.extend(self.process.as_ref().map(|process| ask(process, libc::POLLIN)));
        let looks = if self.stop.is_none() { LOOKS } else { 0 };
        match poll(&mut asked, looks).and_then(|is_there| Ok(is_there || patience.wait(&mut asked)?)) {
            Ok(true) => {}
            Ok(false) => return Err(Error::Timeout("a message".into())),
            Err(e) => return Err(Error::io("waiting on the control socket", e)),
        }
        let stopped = self.stop.is_some() && asked[1].revents != 0;
        Ok(asked[0].revents != 0 && !stopped)
    }

    /// Sends a frame with `fds` on it, within `patience`.
    pub fn send(&mut self, message: &Message, fds: &[BorrowedFd<'_>], mut patience: Patience) -> Result<()> {
        let bytes = wire::encode(message)?;
        let rest = std::mem::take(&mut self.unsent);
        self.write(&rest, &[], &mut patience)?;
        self.write(&bytes, fds, &mut patience)
    }

    fn write(&self, mut bytes: &[u8], mut fds: &[BorrowedFd<'_>], patience: &mut Patience) -> Result<()> {
        while !bytes.is_empty() {
            match rights::send(self.socket(), bytes, fds) {
                Ok(took) => (bytes, fds) = (&bytes[took..], &[]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.await_room(patience)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("writing to the control socket", e)),
            }
        }
        Ok(())
    }

    fn await_room(&self, patience: &mut Patience) -> Result<()> {
        match patience.wait(&mut [ask(&self.socket, libc::POLLOUT)]) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Timeout("the other side's reading".into())),
            Err(e) => Err(Error::io("waiting on the control socket", e)),
        }
    }

    /// Sends `message` if the socket takes it now, else drops it: work is never held up by who watches it (O4).
    pub fn offer(&mut self, message: &Message) {
        if self.unsent.is_empty() {
            self.unsent = wire::encode(message).unwrap_or_default();
            self.push();
        } else {
            self.push();
        }
    }

    fn push(&mut self) {
        while let Ok(took @ 1..) = rights::send(self.socket(), &self.unsent, &[]) {
            self.unsent.drain(..took);
        }
    }

    /// Ends the connection at once, for both sides.
    pub fn shut(&self) {
        // It fails only where the other side has ended it already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Whether the other side has gone away or we shall stop: a long call need not be finished.
    pub fn is_over(&self) -> bool {
        let mut asked = vec![ask(&self.socket, libc::POLLRDHUP)];
        asked.extend(self.stop.as_ref().map(|stop| ask(stop, libc::POLLIN)));
        asked.extend(self.process.as_ref().map(|process| ask(process, libc::POLLIN)));
        Patience::none().wait(&mut asked).unwrap_or(true)
    }
}

/// Whether one of `asked` has something within so many looks, between which others may run.
fn poll(asked: &mut [libc::pollfd], looks: u32) -> io::Result<bool> {
    for _ in 0..looks {
        if Patience::none().wait(asked)? {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

/// Whether an error means no more than that the other side has closed.
pub(super) fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof)
}
