//! The handshake, from connecting to an export that is ready.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use super::error::ConnectError;
use super::link::Link;
use super::uri::Target;
use crate::REQUEST_MAX_BYTES;
use crate::consts::{
    BASE_ALLOCATION, INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake, info_kind, option, rep, transmission,
};

/// Longest option reply that the client accepts, in bytes.
const REPLY_MAX_BYTES: u32 = 64 << 10;

/// The properties that a server offers.
#[derive(Clone, Debug, Default)]
pub(super) struct Export {
    /// Size in bytes; a whole number of sectors.
    pub size: u64,
    /// Transmission flags.
    pub flags: u16,
    pub read_only: bool,
    pub sector_bytes: u32,
    pub preferred_bytes: u32,
    /// Longest read or write, a multiple of the sector.
    pub payload_max_bytes: u64,
    /// True if both ends agreed on structured replies.
    pub structured: bool,
    /// The number of `base:allocation`, if both ends agreed on it.
    pub allocation: Option<u32>,
}

/// The reason why the handshake fails.
#[derive(Debug)]
enum Trouble {
    Lost(io::Error),
    Nonsense(&'static str),
    Refused(String),
    /// A size in bytes that is not a multiple of the block size, the second number.
    PartBlock(u64, u32),
}

impl From<io::Error> for Trouble {
    fn from(why: io::Error) -> Self {
        Self::Lost(why)
    }
}

impl Trouble {
    fn of(self, uri: &str) -> ConnectError {
        let uri = uri.to_owned();
        match self {
            Self::Lost(source) => ConnectError::Unreachable { uri, source },
            Self::Nonsense(why) => ConnectError::NotNbd { uri, why },
            Self::Refused(why) => ConnectError::Refused { uri, why },
            Self::PartBlock(size, block_bytes) => ConnectError::PartBlock { uri, size, block_bytes },
        }
    }
}

/// Connects to `target` and chooses its export, all within `timeout`.
pub(super) fn connect(target: &Target, timeout: Duration) -> Result<(Link, Export), ConnectError> {
    let until = Instant::now() + timeout;
    let haggle = || {
        let link = Link::connect(&target.address, timeout)?;
        let export = Haggling { link: &link, until }.run(&target.export)?;
        link.set_timeout(None)?;
        Ok((link, export))
    };
    haggle().map_err(|trouble: Trouble| trouble.of(&target.uri))
}

struct Haggling<'a> {
    link: &'a Link,
    until: Instant,
}

/// An answer to an option.
struct Reply {
    kind: u32,
    data: Vec<u8>,
}

impl Haggling<'_> {
    fn run(mut self, name: &str) -> Result<Export, Trouble> {
        self.greet()?;
        let mut export = Export { structured: self.ask_structured()?, ..Export::default() };
        if export.structured {
            export.allocation = self.ask_allocation(name)?;
        }
        self.go(name, &mut export)?;
        Ok(export)
    }

    fn greet(&mut self) -> Result<(), Trouble> {
        if u64::from_be_bytes(self.take()?) != INIT_MAGIC {
            return Err(Trouble::Nonsense("a greeting without its magic number"));
        }
        if u64::from_be_bytes(self.take()?) != OPTION_MAGIC {
            return Err(Trouble::Nonsense("an oldstyle greeting"));
        }
        let flags = u32::from(u16::from_be_bytes(self.take()?));
        if flags & handshake::FIXED_NEWSTYLE == 0 {
            return Err(Trouble::Nonsense("a newstyle greeting that is not fixed"));
        }
        let mine = handshake::FIXED_NEWSTYLE | flags & handshake::NO_ZEROES;
        self.say(&mine.to_be_bytes())
    }

    fn ask_structured(&mut self) -> Result<bool, Trouble> {
        self.ask(option::STRUCTURED_REPLY, &[])?;
        Ok(self.reply(option::STRUCTURED_REPLY)?.kind == rep::ACK)
    }

    /// Requests `base:allocation`. A server without it answers with an error, or with only the final reply.
    fn ask_allocation(&mut self, name: &str) -> Result<Option<u32>, Trouble> {
        let mut data = counted(name);
        data.extend_from_slice(&1_u32.to_be_bytes());
        data.extend_from_slice(&counted(BASE_ALLOCATION));
        self.ask(option::SET_META_CONTEXT, &data)?;
        let mut chosen = None;
        loop {
            let reply = self.reply(option::SET_META_CONTEXT)?;
            match (reply.kind, reply.data.split_first_chunk()) {
                (rep::ACK, _) => return Ok(chosen),
                (rep::META_CONTEXT, Some((number, context))) if context == BASE_ALLOCATION.as_bytes() => {
                    chosen = Some(u32::from_be_bytes(*number));
                }
                (kind, _) if kind & (1 << 31) != 0 => return Ok(None),
                _ => return Err(Trouble::Nonsense("a metadata context that was not asked for")),
            }
        }
    }

    fn go(&mut self, name: &str, export: &mut Export) -> Result<(), Trouble> {
        let mut data = counted(name);
        data.extend_from_slice(&[1_u16, info_kind::BLOCK_SIZE].map(u16::to_be_bytes).concat());
        self.ask(option::GO, &data)?;
        let (mut size, mut sizes) = (None, [1, 4096, u32::MAX]);
        loop {
            let reply = self.reply(option::GO)?;
            match reply.kind {
                rep::ACK => break,
                rep::INFO => take_description(&reply.data, &mut size, &mut sizes)?,
                kind if kind & (1 << 31) != 0 => return Err(Trouble::Refused(refusal(&reply))),
                _ => return Err(Trouble::Nonsense("an answer that does not belong to GO")),
            }
        }
        let (size, flags) = size.ok_or(Trouble::Nonsense("an export without a size"))?;
        describe(export, size, flags, sizes)
    }

    fn ask(&mut self, number: u32, data: &[u8]) -> Result<(), Trouble> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.say(&bytes)
    }

    fn reply(&mut self, number: u32) -> Result<Reply, Trouble> {
        if u64::from_be_bytes(self.take()?) != OPTION_REPLY_MAGIC || u32::from_be_bytes(self.take()?) != number {
            return Err(Trouble::Nonsense("an answer to another option"));
        }
        let (kind, len) = (u32::from_be_bytes(self.take()?), u32::from_be_bytes(self.take()?));
        if len > REPLY_MAX_BYTES {
            return Err(Trouble::Nonsense("an answer that is too long"));
        }
        let mut data = vec![0; len as usize];
        self.fill(&mut data)?;
        Ok(Reply { kind, data })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Trouble> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Receives until `into` is full. A server that sends slowly is as late as a silent one.
    fn fill(&mut self, mut into: &mut [u8]) -> Result<(), Trouble> {
        while !into.is_empty() {
            self.arm()?;
            match self.link.read(into)? {
                0 => return Err(Trouble::Lost(io::ErrorKind::UnexpectedEof.into())),
                count => into = &mut into[count..],
            }
        }
        Ok(())
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.arm()?;
        Ok(self.link.write_all(bytes)?)
    }

    fn arm(&self) -> Result<(), Trouble> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Trouble::Lost(io::ErrorKind::TimedOut.into()));
        }
        Ok(self.link.set_timeout(Some(left))?)
    }
}

fn counted(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn refusal(reply: &Reply) -> String {
    let text = String::from_utf8_lossy(&reply.data);
    let meaning = match reply.kind {
        rep::ERR_UNKNOWN => "no such export",
        rep::ERR_POLICY => "not allowed",
        rep::ERR_UNSUP => "it does not know GO; a newer server is needed",
        rep::ERR_SHUTDOWN => "it is stopping",
        rep::ERR_TLS_REQD => "it insists on TLS, which this client does not speak",
        _ => "with an error",
    };
    if text.is_empty() { meaning.to_owned() } else { format!("{meaning} ({text})") }
}

fn take_description(data: &[u8], size: &mut Option<(u64, u16)>, sizes: &mut [u32; 3]) -> Result<(), Trouble> {
    let nonsense = || Trouble::Nonsense("a description of a wrong length");
    let (kind, rest) = data.split_first_chunk().ok_or_else(nonsense)?;
    match u16::from_be_bytes(*kind) {
        info_kind::EXPORT => {
            let rest: &[u8; 10] = rest.try_into().map_err(|_| nonsense())?;
            let (bytes, flags) = rest.split_first_chunk().ok_or_else(nonsense)?;
            *size = Some((u64::from_be_bytes(*bytes), u16::from_be_bytes([flags[0], flags[1]])));
        }
        info_kind::BLOCK_SIZE => {
            let rest: &[u8; 12] = rest.try_into().map_err(|_| nonsense())?;
            for (size, bytes) in sizes.iter_mut().zip(rest.as_chunks().0) {
                *size = u32::from_be_bytes(*bytes);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks the properties that a server reports against the limits of a disk.
fn describe(export: &mut Export, size: u64, flags: u16, sizes: [u32; 3]) -> Result<(), Trouble> {
    let [least, preferred, most] = sizes;
    if flags & transmission::HAS_FLAGS == 0 || i64::try_from(size).is_err() {
        return Err(Trouble::Nonsense("an export without flags, or of an impossible size"));
    }
    if !least.is_power_of_two() || least > 4096 {
        return Err(Trouble::Refused(format!("its smallest request is {least} bytes; at most 4096 is possible here")));
    }
    export.sector_bytes = if least <= 512 { 512 } else { 4096 };
    let sector_bytes = u64::from(export.sector_bytes);
    export.payload_max_bytes = u64::from(most).min(REQUEST_MAX_BYTES as u64) / sector_bytes * sector_bytes;
    if export.payload_max_bytes == 0 {
        return Err(Trouble::Refused(format!("its largest request is {most} bytes, less than a sector")));
    }
    if !size.is_multiple_of(sector_bytes) {
        return Err(Trouble::PartBlock(size, export.sector_bytes));
    }
    export.size = size;
    export.flags = flags;
    export.read_only = flags & transmission::READ_ONLY != 0;
    export.preferred_bytes = preferred.clamp(export.sector_bytes, export.payload_max_bytes as u32);
    Ok(())
}
