//! A client of NBD servers that costs so little that the servers are what is measured.
//!
//! The client keeps a given number of requests in flight on one connection. All replies of one receive are handled
//! together, and as many new requests leave in one send. Data read is not copied out of the receive buffer: a caller that
//! wants it has [`crate::nbd_server::NbdServer::disk`].

use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ferrite_nbd::consts::{
    CHUNK_BYTES, REQUEST_BYTES, REQUEST_MAGIC, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
    command,
};

mod handshake;
#[cfg(test)]
mod tests;

/// Bytes that one receive takes at most.
const INBOX_BYTES: usize = 512 << 10;
/// Buffers that one send gathers at most.
const SLICES_MAX: usize = 64;
/// A server that sends nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that is ready for requests.
#[derive(Debug)]
pub struct LoadClient {
    stream: UnixStream,
    size: u64,
    inbox: Vec<u8>,
    /// The part of the inbox that was received and not yet handled.
    held: std::ops::Range<usize>,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerb {
    /// Read.
    Read,
    /// Write the payload.
    Write,
}

/// A load: requests of one kind, some in flight at any time.
#[derive(Clone, Copy, Debug)]
pub struct RequestLoad<'a> {
    /// The kind of the requests.
    pub verb: RequestVerb,
    /// The data of writes; every request has its length.
    pub payload: &'a [u8],
    /// Requests in flight.
    pub depth: usize,
    /// How long new requests are sent.
    pub time: Duration,
}

/// The head of a chunk of a reply.
struct ReplyChunk {
    is_last: bool,
    len: usize,
}

impl LoadClient {
    /// Connects to the first export of the server on the socket `path`, and negotiates structured replies.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let size = handshake::agree(&mut stream)?;
        Ok(Self { stream, size, inbox: vec![0; INBOX_BYTES], held: 0..0 })
    }

    /// Bytes of the export.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Runs `load` at the offsets that `places` returns. Returns the number of requests, and the time from the first request to
    /// the last reply.
    pub fn run(&mut self, load: &RequestLoad<'_>, mut places: impl FnMut() -> u64) -> io::Result<(u64, Duration)> {
        let mut next: Vec<u64> = (0..load.depth).map(|_| places()).collect();
        let start = Instant::now();
        self.send(load.verb, load.payload, &next)?;
        let (mut in_flight, mut done, mut is_over) = (next.len(), 0, false);
        while in_flight > 0 {
            let mut count = 0;
            while count == 0 || (count < in_flight && self.holds_reply()) {
                self.take_reply()?;
                count += 1;
            }
            (in_flight, done) = (in_flight - count, done + count as u64);
            is_over = is_over || start.elapsed() >= load.time;
            if !is_over {
                next.clear();
                next.extend((0..count).map(|_| places()));
                self.send(load.verb, load.payload, &next)?;
                in_flight += count;
            }
        }
        Ok((done, start.elapsed()))
    }

    /// Sends a request for each of `places`.
    fn send(&mut self, verb: RequestVerb, payload: &[u8], places: &[u64]) -> io::Result<()> {
        let request = |at: &u64| request(verb, *at, payload.len());
        if verb == RequestVerb::Read {
            let bytes: Vec<u8> = places.iter().flat_map(request).collect();
            return self.stream.write_all(&bytes);
        }
        for places in places.chunks(SLICES_MAX / 2) {
            let heads: Vec<[u8; REQUEST_BYTES]> = places.iter().map(request).collect();
            let mut slices: Vec<IoSlice<'_>> =
                heads.iter().flat_map(|head| [IoSlice::new(head), IoSlice::new(payload)]).collect();
            send_all(&mut self.stream, &mut slices)?;
        }
        Ok(())
    }

    /// Whether a whole reply is in the inbox.
    fn holds_reply(&self) -> bool {
        let mut rest = &self.inbox[self.held.clone()];
        if rest.starts_with(&SIMPLE_REPLY_MAGIC.to_be_bytes()) {
            return rest.len() >= SIMPLE_REPLY_BYTES;
        }
        while let Some((head, behind)) = rest.split_first_chunk::<CHUNK_BYTES>() {
            let len = u32::from_be_bytes([head[16], head[17], head[18], head[19]]) as usize;
            let Some(behind) = behind.get(len..) else { return false };
            if u16::from_be_bytes([head[4], head[5]]) & chunk::DONE != 0 {
                return true;
            }
            rest = behind;
        }
        false
    }

    fn take_reply(&mut self) -> io::Result<()> {
        loop {
            let chunk = self.take_chunk()?;
            self.skip(chunk.len)?;
            if chunk.is_last {
                return Ok(());
            }
        }
    }

    /// Reads the head of a chunk. A simple reply, which answers a request without data, counts as one chunk.
    fn take_chunk(&mut self) -> io::Result<ReplyChunk> {
        self.need(SIMPLE_REPLY_BYTES)?;
        let magic = u32::from_be_bytes(self.take());
        if magic == SIMPLE_REPLY_MAGIC {
            let (errno, _cookie) = (u32::from_be_bytes(self.take()), self.take::<8>());
            return refused(errno).map(|()| ReplyChunk { is_last: true, len: 0 });
        }
        if magic != STRUCTURED_REPLY_MAGIC {
            return Err(broken(&format!("a reply starts with {magic:#x}")));
        }
        self.need(CHUNK_BYTES - 4)?;
        let (flags, kind) = (u16::from_be_bytes(self.take()), u16::from_be_bytes(self.take()));
        let _cookie: [u8; 8] = self.take();
        let len = u32::from_be_bytes(self.take()) as usize;
        if kind == chunk::ERROR || kind == chunk::ERROR_OFFSET {
            self.need(4)?;
            refused(u32::from_be_bytes(self.take()))?;
        }
        Ok(ReplyChunk { is_last: flags & chunk::DONE != 0, len })
    }

    /// Returns bytes that [`Self::need`] has waited for.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.inbox[self.held.clone()].first_chunk().copied().expect("waited for");
        self.held.start += N;
        bytes
    }

    fn skip(&mut self, mut len: usize) -> io::Result<()> {
        while len > self.held.len() {
            len -= self.held.len();
            self.held = 0..0;
            self.receive()?;
        }
        self.held.start += len;
        Ok(())
    }

    /// Waits until `len` bytes are in the inbox, which must have room for them.
    fn need(&mut self, len: usize) -> io::Result<()> {
        while self.held.len() < len {
            if self.held.is_empty() {
                self.held = 0..0;
            } else if self.held.start > 0 {
                self.inbox.copy_within(self.held.clone(), 0);
                self.held = 0..self.held.len();
            }
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        match self.stream.read(&mut self.inbox[self.held.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.held.end += count;
                Ok(())
            }
        }
    }
}

impl Drop for LoadClient {
    fn drop(&mut self) {
        // The server ends the connection in any case.
        let _ = self.stream.write_all(&bytes_of(command::DISC, 0, 0));
    }
}

fn request(verb: RequestVerb, at: u64, len: usize) -> [u8; REQUEST_BYTES] {
    bytes_of(if verb == RequestVerb::Read { command::READ } else { command::WRITE }, at, len as u32)
}

fn bytes_of(command: u16, at: u64, len: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[6..8].copy_from_slice(&command.to_be_bytes());
    bytes[8..16].copy_from_slice(&at.to_be_bytes());
    bytes[16..24].copy_from_slice(&at.to_be_bytes());
    bytes[24..].copy_from_slice(&len.to_be_bytes());
    bytes
}

fn send_all(stream: &mut UnixStream, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match stream.write_vectored(slices)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut slices, count),
        }
    }
    Ok(())
}

fn refused(errno: u32) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(broken(&format!("error {errno}"))) }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server broke the protocol or failed: {what}"))
}
