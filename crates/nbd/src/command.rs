//! The effect of each request on the disk.

use ferrite_disk::Run;
use ferrite_memory::{Error, Span};

use super::consts::{BASE_ALLOCATION_ID, STATE_HOLE, STATE_ZERO, chunk, command_flag};
use super::errno::{EINVAL, ENOSPC, EPERM, Fault};
use super::outbox::Chunk;
use super::peer::Peer;
use super::session::{REQUEST_MAX_BYTES, Session, Trouble};
use super::wire::{Command, Request};

/// Most extents reported in one answer.
const EXTENTS_MAX: usize = 4096;
/// Number of bytes of the disk whose extents are requested first, because the first few extents suffice for most
/// requests. Later windows are as large as the range reported so far.
const FIRST_WINDOW_BYTES: u64 = 1 << 20;
/// Number of bytes of the disk whose extents are requested at once; it bounds their memory (N3).
const EXTENTS_WINDOW_BYTES: u64 = 64 << 20;

impl Session {
    /// Refuses requests that must not reach the disk (N6).
    pub fn check(&self, request: &Request) -> Result<(), Fault> {
        let Request { command, span, .. } = *request;
        self.check_kind(request)?;
        let bulk = matches!(command, Command::Read | Command::Write);
        if bulk && span.len > REQUEST_MAX_BYTES as u64 {
            return Err(Fault::new(EINVAL, format!("{} bytes at once; at most {REQUEST_MAX_BYTES}", span.len)));
        }
        if !span.fits(self.geometry.size) {
            let grows = matches!(command, Command::Write | Command::WriteZeroes);
            let errno = if grows { ENOSPC } else { EINVAL };
            let text = format!("{} bytes at {} of a disk of {}", span.len, span.at, self.geometry.size);
            return Err(Fault::new(errno, text));
        }
        if !span.aligned_to(u64::from(self.geometry.sector_bytes)) {
            let text = format!("{} bytes at {} with sectors of {}", span.len, span.at, self.geometry.sector_bytes);
            return Err(Fault::new(EINVAL, text));
        }
        Ok(())
    }

    fn check_kind(&self, request: &Request) -> Result<(), Fault> {
        let Request { command, span, flags, .. } = *request;
        let changes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        let reason = match command {
            Command::Unknown(number) => return Err(Fault::new(EINVAL, format!("unknown command {number}"))),
            _ if changes && self.geometry.read_only => return Err(Fault::new(EPERM, "the disk is read-only")),
            _ if flags & !command.flags() != 0 => "a flag that this command does not have",
            Command::Read if request.has(command_flag::DF) && !self.structured => "DF without structured replies",
            Command::Flush if (span.at, span.len) != (0, 0) => "a flush has neither offset nor length",
            Command::BlockStatus if !self.allocation => "no metadata context was agreed on",
            Command::BlockStatus if span.len == 0 => "the status of nothing",
            _ => return Ok(()),
        };
        Err(Fault::new(EINVAL, reason))
    }

    /// Executes a checked request, whose payload is held in the inbox behind it. A changing request is done, and with
    /// FUA durable, before its reply is gathered (N2).
    pub fn execute(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let span = request.span;
        let access = request.access();
        match request.command {
            Command::Read => return self.read(request, peer),
            Command::BlockStatus => return self.block_status(request, peer),
            Command::Write => self.disk.write(span.at, peer.payload(request), access)?,
            Command::Flush => self.disk.flush()?,
            Command::Trim => self.disk.trim(span, access)?,
            Command::WriteZeroes => self.write_zeroes(request)?,
            // CACHE is a hint, and there is no faster memory to use.
            Command::Cache => {}
            Command::Disconnect | Command::Unknown(_) => unreachable!("answered or refused before"),
        }
        peer.outbox.simple_reply(request.cookie, 0);
        Ok(())
    }

    fn write_zeroes(&self, request: &Request) -> Result<(), Fault> {
        let how = request.zeroing();
        self.disk.write_zeroes(request.span, how).map_err(|error| Fault::of_zeroing(error, how.fast))
    }

    fn block_status(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), Trouble> {
        let most = if request.has(command_flag::REQ_ONE) { 1 } else { EXTENTS_MAX };
        let extents = self.extents(request.span, most)?;
        let len = 4 + 8 * extents.len();
        peer.outbox.chunk(request.cookie, Chunk { done: true, kind: chunk::BLOCK_STATUS, len });
        peer.outbox.put(&BASE_ALLOCATION_ID.to_be_bytes());
        for Extent { len, state } in extents {
            peer.outbox.put(&(len as u32).to_be_bytes());
            peer.outbox.put(&state.to_be_bytes());
        }
        Ok(())
    }

    /// Returns the first extents of `span`: at least one, at most `most`. Neighbours of one state are joined.
    fn extents(&self, span: Span, most: usize) -> Result<Vec<Extent>, Fault> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut told_bytes = 0;
        while told_bytes < span.len {
            let window_most_bytes = told_bytes.clamp(FIRST_WINDOW_BYTES, EXTENTS_WINDOW_BYTES);
            let window = Span::new(span.at + told_bytes, (span.len - told_bytes).min(window_most_bytes));
            let mut window_bytes = 0;
            for run in self.disk.extents(window)? {
                let extent = Extent::of(run, window.len - window_bytes);
                let full = extents.len() == most;
                match extents.last_mut() {
                    Some(last) if last.state == extent.state => last.len += extent.len,
                    _ if full => return Ok(extents),
                    _ => extents.push(extent),
                }
                window_bytes += extent.len;
            }
            if window_bytes == 0 {
                return Err(Fault::from(Error::Unsupported("extents of this disk".into())));
            }
            told_bytes += window_bytes;
        }
        Ok(extents)
    }
}

/// A run in the protocol's terms.
#[derive(Clone, Copy, Debug)]
struct Extent {
    len: u64,
    state: u32,
}

impl Extent {
    /// Converts `run`; `most_bytes` is the length of the requested range.
    fn of(run: Run, most_bytes: u64) -> Self {
        let hole = if run.hole { STATE_HOLE } else { 0 };
        let zero = if run.zero { STATE_ZERO } else { 0 };
        Self { len: run.len.min(most_bytes), state: hole | zero }
    }
}
