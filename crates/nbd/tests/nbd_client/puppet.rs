//! A server that sends exactly the bytes that a test wants.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};

use ferrite_nbd::consts::{
    BASE_ALLOCATION, CHUNK_BYTES, INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, info_kind, option, rep,
};
use tempfile::{TempDir, tempdir};

/// Size of the export, in bytes.
pub const SIZE: u64 = 1 << 20;

/// A listening puppet, for one client.
pub struct Puppet {
    dir: TempDir,
    served: JoinHandle<()>,
}

/// A request as the puppet receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub at: u64,
    pub len: u32,
}

/// The properties that the puppet reports.
#[derive(Clone, Copy)]
pub struct Manners {
    pub structured: bool,
    pub flags: u16,
    /// Size of the export in bytes.
    pub size: u64,
    /// Smallest, preferred and largest request.
    pub sizes: Option<[u32; 3]>,
}

impl Puppet {
    /// Leaves everything to `act`, once a client has connected.
    pub fn new(act: impl FnOnce(UnixStream) + Send + 'static) -> Self {
        let dir = tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let served = thread::spawn(move || act(listener.accept().unwrap().0));
        Self { dir, served }
    }

    /// Makes a correct handshake, then leaves the rest to `act`.
    pub fn polite(manners: Manners, act: impl FnOnce(UnixStream) + Send + 'static) -> Self {
        Self::new(move |mut stream| {
            haggle(&mut stream, manners);
            act(stream);
        })
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.dir.path().join("socket").display())
    }

    /// Waits until the puppet has sent everything.
    pub fn end(self) {
        self.served.join().unwrap();
    }
}

fn haggle(stream: &mut UnixStream, manners: Manners) {
    stream.write_all(&greeting()).unwrap();
    take::<4>(stream);
    loop {
        let head = take::<16>(stream);
        let number = u32::from_be_bytes(head[8..12].try_into().unwrap());
        let mut data = vec![0; u32::from_be_bytes(head[12..].try_into().unwrap()) as usize];
        stream.read_exact(&mut data).unwrap();
        let said = match number {
            option::STRUCTURED_REPLY if manners.structured => option_reply(number, rep::ACK, &[]),
            option::SET_META_CONTEXT => {
                let context = [&[0, 0, 0, 5], BASE_ALLOCATION.as_bytes()].concat();
                [option_reply(number, rep::META_CONTEXT, &context), option_reply(number, rep::ACK, &[])].concat()
            }
            option::GO => description(manners),
            _ => option_reply(number, rep::ERR_UNSUP, b"no"),
        };
        stream.write_all(&said).unwrap();
        if number == option::GO {
            return;
        }
    }
}

pub fn greeting() -> Vec<u8> {
    [&INIT_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &[0, 3]].concat()
}

fn description(manners: Manners) -> Vec<u8> {
    let export =
        [&info_kind::EXPORT.to_be_bytes()[..], &manners.size.to_be_bytes(), &manners.flags.to_be_bytes()].concat();
    let mut said = option_reply(option::GO, rep::INFO, &export);
    if let Some(sizes) = manners.sizes {
        let sizes = [&info_kind::BLOCK_SIZE.to_be_bytes()[..], sizes.map(u32::to_be_bytes).as_flattened()].concat();
        said.extend(option_reply(option::GO, rep::INFO, &sizes));
    }
    [said, option_reply(option::GO, rep::ACK, &[])].concat()
}

pub fn option_reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let head = [number, kind, data.len() as u32].map(u32::to_be_bytes);
    [&OPTION_REPLY_MAGIC.to_be_bytes()[..], head.as_flattened(), data].concat()
}

fn take<const N: usize>(stream: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Returns the next request, without the payload of a write; `None` once the client has left.
pub fn request(stream: &mut UnixStream) -> Option<Seen> {
    let mut head = [0; 28];
    stream.read_exact(&mut head).ok()?;
    Some(Seen {
        flags: u16::from_be_bytes(head[4..6].try_into().unwrap()),
        command: u16::from_be_bytes(head[6..8].try_into().unwrap()),
        cookie: u64::from_be_bytes(head[8..16].try_into().unwrap()),
        at: u64::from_be_bytes(head[16..24].try_into().unwrap()),
        len: u32::from_be_bytes(head[24..].try_into().unwrap()),
    })
}

pub fn simple(cookie: u64, errno: u32) -> Vec<u8> {
    [&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &errno.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

/// Returns a chunk whose head has the length `len`, whatever the payload's length is.
pub fn chunk(cookie: u64, flags: u16, kind: u16, len: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    assert_eq!(bytes.len(), CHUNK_BYTES);
    bytes.extend(payload);
    bytes
}

/// Returns a chunk whose head has the payload's length.
pub fn whole(cookie: u64, flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    chunk(cookie, flags, kind, payload.len() as u32, payload)
}
