//! A client that sends exactly the bytes that a test wants, and reads exactly the bytes that arrive.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ferrite_memory::planted::plant;
use ferrite_nbd::consts::{
    INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
    option, rep,
};
use ferrite_nbd::{End, Hangup, Server, Transport};

/// So long that only a server that hangs exceeds it.
const HANGS: Duration = Duration::from_secs(60);

pub struct Client {
    pub stream: UnixStream,
    pub served: Option<JoinHandle<Result<(), End>>>,
    /// Replies of which some chunks have arrived: chunks of different replies may alternate.
    partial: HashMap<u64, Reply>,
}

/// A server's stream that records its use.
pub struct Spy {
    stream: UnixStream,
    log: Arc<Mutex<Log>>,
}

/// The records of a [`Spy`].
#[derive(Default)]
pub struct Log {
    pub sends: usize,
    /// Receive timeouts that were set.
    pub timeouts: Vec<Option<Duration>>,
}

impl Spy {
    pub fn new(stream: UnixStream) -> (Self, Arc<Mutex<Log>>) {
        let log = Arc::default();
        (Self { stream, log: Arc::clone(&log) }, log)
    }
}

impl Transport for Spy {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Transport::receive(&mut self.stream, into)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Transport::try_receive(&mut self.stream, into)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.log.lock().unwrap().sends += 1;
        Transport::send(&mut self.stream, bytes)
    }

    fn set_timeouts(&mut self, receive: Option<Duration>, send: Option<Duration>) -> io::Result<()> {
        self.log.lock().unwrap().timeouts.push(receive);
        self.stream.set_timeouts(receive, send)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.descriptor()
    }

    fn hangup(&self) -> io::Result<Hangup> {
        self.stream.hangup()
    }
}

/// A request to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    pub command: u16,
    pub flags: u16,
    pub at: u64,
    pub len: u32,
}

/// An option reply.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionReply {
    pub kind: u32,
    pub data: Vec<u8>,
}

/// A reply, put together from its chunks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub errno: u32,
    /// Offset of an ERROR_OFFSET chunk.
    pub failed_at: Option<u64>,
    pub text: String,
    /// Type, offset and length of each content chunk.
    pub chunks: Vec<(u16, u64, usize)>,
    pub data: Vec<u8>,
    /// Length and state of each extent.
    pub extents: Vec<(u32, u32)>,
}

impl Client {
    /// Connects to a server in this process; the greeting is read and no option is sent.
    pub fn connect(server: &Server) -> Self {
        Self::connect_with(server, None)
    }

    /// Connects like [`Client::connect`] to a server whose thread has the planted `bug`.
    pub fn connect_with(server: &Server, bug: Option<&'static str>) -> Self {
        let (stream, theirs) = UnixStream::pair().unwrap();
        let server = server.clone();
        let served = thread::spawn(move || {
            let _bug = bug.map(plant);
            server.serve_stream(theirs)
        });
        let mut client = Self { served: Some(served), ..Self::bare(stream) };
        client.greet(3);
        client
    }

    /// Creates a client on the test's own stream.
    pub fn on(stream: UnixStream) -> Self {
        let mut client = Self::bare(stream);
        client.greet(3);
        client
    }

    /// Creates a client on a stream whose greeting has passed.
    pub fn bare(stream: UnixStream) -> Self {
        Self { stream, served: None, partial: HashMap::new() }
    }

    fn greet(&mut self, flags: u32) {
        self.stream.set_read_timeout(Some(HANGS)).unwrap();
        assert_eq!((self.u64(), self.u64(), self.u16()), (INIT_MAGIC, OPTION_MAGIC, 3));
        self.say(&flags.to_be_bytes());
    }

    /// Connects with structured replies and `base:allocation`, ready for requests.
    pub fn structured(server: &Server) -> Self {
        let mut client = Self::connect(server);
        client.agree();
        client
    }

    /// Asks for structured replies and `base:allocation`, and enters transmission.
    pub fn agree(&mut self) {
        assert_eq!(self.option(option::STRUCTURED_REPLY, &[])[0].kind, rep::ACK);
        let contexts = self.option(option::SET_META_CONTEXT, &context_data("", &["base:allocation"]));
        assert_eq!(contexts[0].data, [&[0, 0, 0, 1], &b"base:allocation"[..]].concat());
        self.go("");
    }

    /// Connects with simple replies, ready for requests.
    pub fn simple(server: &Server) -> Self {
        let mut client = Self::connect(server);
        client.go("");
        client
    }

    fn go(&mut self, name: &str) {
        let replies = self.option(option::GO, &go_data(name, &[]));
        assert_eq!(replies.last().unwrap().kind, rep::ACK, "{replies:?}");
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends an option and returns all replies up to the final one.
    pub fn option(&mut self, number: u32, data: &[u8]) -> Vec<OptionReply> {
        self.say(&option_bytes(number, data));
        let mut replies = Vec::new();
        loop {
            assert_eq!((self.u64(), self.u32()), (OPTION_REPLY_MAGIC, number));
            let (kind, len) = (self.u32(), self.u32());
            replies.push(OptionReply { kind, data: self.bytes(len as usize) });
            if kind == rep::ACK || kind & (1 << 31) != 0 {
                return replies;
            }
        }
    }

    /// Sends a request; its cookie is its offset, so that the test can distinguish replies.
    pub fn ask(&mut self, ask: Ask, payload: &[u8]) {
        let bytes = [&request_bytes(ask), payload].concat();
        self.say(&bytes);
    }

    /// Sends a request and reads its reply.
    pub fn call(&mut self, ask: Ask, payload: &[u8]) -> Reply {
        self.ask(ask, payload);
        let reply = self.reply(ask.len as usize);
        assert_eq!(reply.cookie, ask.at, "the reply of another request");
        reply
    }

    /// Reads a reply; a simple reply to a read has `data_bytes` of data.
    pub fn reply(&mut self, data_bytes: usize) -> Reply {
        loop {
            match self.u32() {
                SIMPLE_REPLY_MAGIC => {
                    let (errno, cookie) = (self.u32(), self.u64());
                    let mut reply = Reply { errno, cookie, ..Reply::default() };
                    if errno == 0 && data_bytes > 0 {
                        reply.chunks.push((u16::MAX, 0, 0));
                    }
                    return reply;
                }
                STRUCTURED_REPLY_MAGIC => {
                    if let Some(reply) = self.chunk() {
                        return reply;
                    }
                }
                magic => panic!("a reply starts with {magic:#x}"),
            }
        }
    }

    /// Returns the data behind the head of a simple reply to a read.
    pub fn simple_data(&mut self, len: usize) -> Vec<u8> {
        self.bytes(len)
    }

    /// Reads a chunk; returns the reply that it ends.
    fn chunk(&mut self) -> Option<Reply> {
        let (flags, kind, cookie) = (self.u16(), self.u16(), self.u64());
        let len = self.u32() as usize;
        let payload = self.bytes(len);
        let mut reply = self.partial.remove(&cookie).unwrap_or(Reply { cookie, ..Reply::default() });
        reply.take_chunk(kind, &payload);
        if flags & chunk::DONE != 0 {
            return Some(reply);
        }
        self.partial.insert(cookie, reply);
        None
    }

    /// Returns all bytes up to the end of the stream.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset instead of an end counts as an end.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    /// Returns the result of the server's side.
    pub fn end(mut self) -> Result<(), End> {
        let served = self.served.take().unwrap();
        drop(self);
        served.join().unwrap()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().unwrap())
    }
}

impl Reply {
    fn take_chunk(&mut self, kind: u16, payload: &[u8]) {
        let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().unwrap());
        match kind {
            chunk::NONE => assert!(payload.is_empty()),
            chunk::OFFSET_DATA => {
                self.chunks.push((kind, long(0), payload.len() - 8));
                self.data.extend_from_slice(&payload[8..]);
            }
            chunk::OFFSET_HOLE => {
                self.chunks.push((kind, long(0), word(8) as usize));
                self.data.resize(self.data.len() + word(8) as usize, 0);
            }
            chunk::BLOCK_STATUS => {
                assert_eq!(word(0), 1);
                self.extents = (4..payload.len()).step_by(8).map(|at| (word(at), word(at + 4))).collect();
            }
            chunk::ERROR | chunk::ERROR_OFFSET => {
                let text_bytes = usize::from(u16::from_be_bytes([payload[4], payload[5]]));
                self.errno = word(0);
                self.text = String::from_utf8(payload[6..6 + text_bytes].to_vec()).unwrap();
                self.failed_at = (kind == chunk::ERROR_OFFSET).then(|| long(6 + text_bytes));
            }
            other => panic!("chunk of type {other}"),
        }
    }
}

pub fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    let head = [OPTION_MAGIC.to_be_bytes(), ((u64::from(number) << 32) | data.len() as u64).to_be_bytes()];
    [head.as_flattened(), data].concat()
}

pub fn request_bytes(ask: Ask) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&ask.flags.to_be_bytes());
    bytes.extend_from_slice(&ask.command.to_be_bytes());
    bytes.extend_from_slice(&ask.at.to_be_bytes());
    bytes.extend_from_slice(&ask.at.to_be_bytes());
    bytes.extend_from_slice(&ask.len.to_be_bytes());
    bytes
}

pub fn go_data(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = name_data(name);
    data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
    data
}

pub fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = name_data(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend_from_slice(&name_data(query)));
    data
}

fn name_data(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat()
}
