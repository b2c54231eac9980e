//! Received bytes, and their division into replies (C2).
//!
//! ```text
//! simple   67446698:32  errno:32  cookie:64                            data of a READ
//! chunk    668e33ef:32  flags:16  type:16  cookie:64  len:32           payload: len bytes
//! payloads OFFSET_DATA offset:64 data  OFFSET_HOLE offset:64 len:32  BLOCK_STATUS id:32 (len:32 state:32)*
//!          ERROR errno:32 text_len:16 text  ERROR_OFFSET the same, offset:64
//! ```

use ferrite_disk::Run;
use ferrite_memory::Span;

use super::error::Failure;
use super::flight::{Flight, Piece};
use crate::consts::{
    CHUNK_BYTES, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC, STATE_HOLE, STATE_ZERO, STRUCTURED_REPLY_MAGIC, chunk, command,
};

/// Size of the receive buffer in bytes.
const BYTES: usize = 256 << 10;
/// Longest payload that is not data, in bytes; qemu-nbd sends up to 1 MiB of extents.
const WHOLE_MAX_BYTES: u32 = 2 << 20;

/// The reason why a server's message is invalid.
pub(super) type Nonsense = &'static str;

/// The receive buffer; `start .. end` of `bytes` is received and not yet used.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    structured: bool,
    /// The number of `base:allocation`.
    allocation: Option<u32>,
    /// The body that the last head announced.
    body: Option<Body>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    cookie: u64,
    done: bool,
    kind: u16,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// Data for `span`, which is used as it arrives.
    Data { cookie: u64, done: bool, span: Span },
    /// A chunk that is used once it is complete. A data chunk is used once its offset has arrived.
    Payload(Chunk),
}

impl Inbox {
    /// Creates an empty inbox, with or without structured replies. `allocation` is the agreed number of
    /// `base:allocation`.
    pub fn new(structured: bool, allocation: Option<u32>) -> Self {
        Self { bytes: vec![0; BYTES], start: 0, end: 0, structured, allocation, body: None }
    }

    /// Returns the space for the next receive.
    pub fn space(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let needed = match self.body {
            Some(Body::Payload(chunk)) if chunk.kind != chunk::OFFSET_DATA => chunk.len as usize,
            _ => 0,
        };
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        } else if needed < BYTES && self.end < BYTES && self.bytes.len() > BYTES {
            self.bytes.truncate(BYTES);
        }
        &mut self.bytes[self.end..]
    }

    /// Adds `count` bytes, which were received into the space.
    pub fn received(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Returns the next `N` bytes, if they have arrived.
    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        self.held().first_chunk().copied()
    }

    /// Uses all complete messages. After an error the framing is lost.
    pub fn absorb(&mut self, flight: &mut Flight) -> Result<(), Nonsense> {
        loop {
            let went_on = match self.body {
                None => self.take_head(flight)?,
                Some(Body::Data { cookie, done, span }) => self.take_data(flight, cookie, done, span)?,
                Some(Body::Payload(chunk)) => self.take_payload(flight, chunk)?,
            };
            if !went_on {
                return Ok(());
            }
        }
    }

    fn take_head(&mut self, flight: &mut Flight) -> Result<bool, Nonsense> {
        match self.peek().map(u32::from_be_bytes) {
            None => Ok(false),
            Some(SIMPLE_REPLY_MAGIC) => self.take_simple(flight),
            Some(STRUCTURED_REPLY_MAGIC) if self.structured => self.take_chunk(flight),
            Some(_) => Err("a reply with a wrong magic number"),
        }
    }

    fn take_simple(&mut self, flight: &mut Flight) -> Result<bool, Nonsense> {
        let Some(head) = self.peek::<SIMPLE_REPLY_BYTES>() else { return Ok(false) };
        self.consume(head.len());
        let (errno, cookie) = (u32_at(&head, 4), u64_at(&head, 8));
        let piece = flight.piece(cookie).ok_or("a reply to nothing that was asked")?;
        let &Piece { command, span, .. } = piece;
        if errno != 0 {
            flight.fail(cookie, &Failure { errno, text: String::new(), at: None });
        } else if command == command::READ && self.structured {
            return Err("a simple reply to a read where structured ones were agreed on");
        } else if command == command::READ {
            if !flight.expects(cookie, span) {
                return Err("data that was not asked for");
            }
            self.body = Some(Body::Data { cookie, done: true, span });
            return Ok(true);
        }
        end(flight, cookie)
    }

    fn take_chunk(&mut self, flight: &Flight) -> Result<bool, Nonsense> {
        let Some(head) = self.peek::<CHUNK_BYTES>() else { return Ok(false) };
        self.consume(head.len());
        let (flags, kind) = (u16_at(&head, 4), u16_at(&head, 6));
        let (cookie, len) = (u64_at(&head, 8), u32_at(&head, 16));
        flight.piece(cookie).ok_or("a reply to nothing that was asked")?;
        if kind != chunk::OFFSET_DATA && len > WHOLE_MAX_BYTES {
            return Err("a chunk that is too long");
        }
        self.body = Some(Body::Payload(Chunk { cookie, done: flags & chunk::DONE != 0, kind, len }));
        Ok(true)
    }

    fn take_data(&mut self, flight: &mut Flight, cookie: u64, done: bool, span: Span) -> Result<bool, Nonsense> {
        let count = self.held().len().min(span.len as usize);
        flight.fill(cookie, span.at, &self.held()[..count]);
        self.consume(count);
        let rest = Span::new(span.at + count as u64, span.len - count as u64);
        self.body = (rest.len > 0).then_some(Body::Data { cookie, done, span: rest });
        if rest.len > 0 {
            return Ok(false);
        }
        if done { end(flight, cookie) } else { Ok(true) }
    }

    fn take_payload(&mut self, flight: &mut Flight, chunk: Chunk) -> Result<bool, Nonsense> {
        if chunk.kind == chunk::OFFSET_DATA {
            return self.take_offset(flight, chunk);
        }
        let len = chunk.len as usize;
        let Some(payload) = self.held().get(..len) else { return Ok(false) };
        match chunk.kind {
            chunk::NONE if chunk.done && len == 0 => {}
            chunk::OFFSET_HOLE => take_hole(flight, chunk.cookie, payload)?,
            chunk::BLOCK_STATUS => take_extents(flight, chunk.cookie, payload, self.allocation)?,
            kind if kind & (1 << 15) != 0 => flight.fail(chunk.cookie, &failure(kind, payload)?),
            _ => return Err("a chunk of an unknown type"),
        }
        self.consume(len);
        self.body = None;
        if chunk.done { end(flight, chunk.cookie) } else { Ok(true) }
    }

    fn take_offset(&mut self, flight: &mut Flight, Chunk { cookie, done, len, .. }: Chunk) -> Result<bool, Nonsense> {
        let Some(offset) = self.peek() else { return Ok(false) };
        let data_bytes = len.checked_sub(8).filter(|count| *count > 0).ok_or("a chunk of data without data")?;
        let span = Span::new(u64::from_be_bytes(offset), u64::from(data_bytes));
        if !flight.expects(cookie, span) {
            return Err("data that was not asked for");
        }
        self.consume(offset.len());
        self.body = Some(Body::Data { cookie, done, span });
        Ok(true)
    }
}

fn end(flight: &mut Flight, cookie: u64) -> Result<bool, Nonsense> {
    if flight.end(cookie) { Ok(true) } else { Err("a reply that leaves out what was asked for") }
}

fn take_hole(flight: &mut Flight, cookie: u64, payload: &[u8]) -> Result<(), Nonsense> {
    if payload.len() != 12 {
        return Err("a hole of a wrong length");
    }
    let span = Span::new(u64_at(payload, 0), u64::from(u32_at(payload, 8)));
    if span.len == 0 || !flight.expects(cookie, span) {
        return Err("a hole that was not asked for");
    }
    flight.clear(cookie, span);
    Ok(())
}

/// Records the extents of a chunk. The client requested only the context `base:allocation`.
fn take_extents(flight: &mut Flight, cookie: u64, payload: &[u8], allocation: Option<u32>) -> Result<(), Nonsense> {
    let (context, pairs) = payload.split_at_checked(4).ok_or("extents without a context")?;
    if allocation != Some(u32_at(context, 0)) {
        return Err("extents of a context that was not agreed on");
    }
    if pairs.is_empty() || !pairs.len().is_multiple_of(8) {
        return Err("extents of a wrong length");
    }
    let run = |pair: &[u8]| {
        let state = u32_at(pair, 4);
        Run { len: u64::from(u32_at(pair, 0)), hole: state & STATE_HOLE != 0, zero: state & STATE_ZERO != 0 }
    };
    let is_asked = flight.tell(cookie, pairs.chunks_exact(8).map(run));
    is_asked.then_some(()).ok_or("extents that were not asked for")
}

fn failure(kind: u16, payload: &[u8]) -> Result<Failure, Nonsense> {
    let text_bytes = payload.get(4..6).map(|len| usize::from(u16_at(len, 0))).ok_or("an error without a number")?;
    let text = payload.get(6..6 + text_bytes).ok_or("an error whose text is cut off")?;
    let rest = &payload[6 + text_bytes..];
    let at = (kind == chunk::ERROR_OFFSET && rest.len() == 8).then(|| u64_at(rest, 0));
    let errno = u32_at(payload, 0);
    if errno == 0 {
        return Err("an error that is none");
    }
    Ok(Failure { errno, text: String::from_utf8_lossy(text).into_owned(), at })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
