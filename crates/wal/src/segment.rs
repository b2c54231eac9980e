//! Segments: the files that a log drains to.
//!
//! ```text
//! file NAME/00000000000000000042.log, named by the position of its first line
//!   0     header, see below; then zeros up to 4096
//!   4096  the ring's lines from that position on, as they lay there: line `position` at 4096 + (position - first) * 64
//!
//! header  0 magic "FERRWAL\0"   8 version u32   12 crc u32 of the rest, started from 0   16 uuid of the pool [16]
//!         32 generation of the log's tag u64   40 first u64   48 salt of the records u32   52 zeros, 12 bytes
//! ```
//!
//! A line's place in its file follows from its position alone, so writing it twice does no harm, and a crash in the
//! middle of draining leaves nothing to be found out: what is not before the log's head is written again.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ferrite_pool::TagLog;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Bytes before the records.
pub(crate) const HEADER_BYTES: u64 = 4096;
const MAGIC: [u8; 8] = *b"FERRWAL\0";
const VERSION: u32 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, PartialEq, Eq)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    uuid: [u8; 16],
    generation: U64,
    first: U64,
    salt: U32,
    reserved: [u8; 12],
}

const _: () = assert!(size_of::<Header>() == 64);

/// The header of the segment of `log` that starts at `first`.
pub(crate) fn header(log: &TagLog, uuid: [u8; 16], first: u64) -> Vec<u8> {
    let mut header = Header::new_zeroed();
    header.magic = MAGIC;
    header.version = VERSION.into();
    header.uuid = uuid;
    header.generation = log.tag().generation.into();
    header.first = first.into();
    header.salt = log.salt().into();
    header.crc = crc32fast::hash(&header.as_bytes()[16..]).into();
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(HEADER_BYTES as usize, 0);
    bytes
}

/// What is wrong with `found` where `wanted` is the header that should be there.
pub(crate) fn fault(found: &[u8], wanted: &[u8]) -> Option<&'static str> {
    let Ok((header, _)) = Header::read_from_prefix(found) else { return Some("it is too short") };
    match () {
        () if header.magic != MAGIC => Some("no header"),
        () if header.version.get() != VERSION => Some("another version"),
        () if crc32fast::hash(&header.as_bytes()[16..]) != header.crc.get() => Some("its header is damaged"),
        () if found.get(..64) != wanted.get(..64) => Some("another log's"),
        () => None,
    }
}

/// Whether nothing, or nothing that lasted, was written at the start of a segment.
pub(crate) fn is_blank(found: &[u8]) -> bool {
    found.iter().all(|byte| *byte == 0)
}

/// Where a log drains to: files by number, on ordinary storage. Called by one thread at a time.
pub trait Folder: Send {
    /// The segments that are there, in any order.
    ///
    /// # Errors
    /// As the storage says.
    fn list(&mut self) -> io::Result<Vec<u64>>;

    /// Writes `bytes` into `segment` at byte `at`; makes it where it is not there, and leaves a hole where it is short.
    ///
    /// # Errors
    /// As the storage says; nobody relies on what was written then.
    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything written to `segment`, its length and its name durable.
    ///
    /// # Errors
    /// As the storage says. What was written to `segment` since it was settled last may be lost then, though a later
    /// call succeeds.
    fn settle(&mut self, segment: u64) -> io::Result<()>;

    /// Reads from `segment` at byte `at`; how many bytes, fewer only at its end.
    ///
    /// # Errors
    /// As the storage says, also where there is no such segment.
    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Removes `segment`. Durable when the next one is settled.
    ///
    /// # Errors
    /// As the storage says.
    fn remove(&mut self, segment: u64) -> io::Result<()>;

    /// Where it is, for messages.
    fn place(&self) -> String;
}

/// A folder of a file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The file that was used last.
    open: Option<(u64, File)>,
}

impl Directory {
    /// The folder at `path`, which is made if it is not there. Nothing else should be in it.
    ///
    /// # Errors
    /// What the system says, where the folder cannot be made.
    pub fn new(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Self { path: path.into(), open: None })
    }

    fn file(&self, segment: u64) -> PathBuf {
        self.path.join(format!("{segment:020}.log"))
    }

    fn open(&mut self, segment: u64, make: bool) -> io::Result<&File> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != segment) {
            let file = File::options().read(true).write(true).create(make).truncate(false).open(self.file(segment))?;
            self.open = Some((segment, file));
        }
        let (_, file) = self.open.as_ref().expect("just opened");
        Ok(file)
    }
}

impl Folder for Directory {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".log"));
            found.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        Ok(found)
    }

    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.open(segment, true)?.write_all_at(bytes, at)
    }

    fn settle(&mut self, segment: u64) -> io::Result<()> {
        // A file that was removed meanwhile would sync well, and everything in it be gone.
        if fs::metadata(self.file(segment)).is_err() {
            self.open = None;
        }
        let synced = self.open(segment, false).and_then(File::sync_all);
        if synced.is_err() {
            self.open = None;
        }
        synced?;
        File::open(&self.path)?.sync_all()
    }

    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.open(segment, false)?;
        let mut done = 0;
        while done < into.len() {
            match file.read_at(&mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.open = None;
        fs::remove_file(self.file(segment))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests;
