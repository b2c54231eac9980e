//! Segments: the files that a log drains to.
//!
//! ```text
//! file NAME/00000000000000000042.log, named by the position of its first line
//!      0  header, see below; then zeros up to 4096
//!   4096  the ring's lines from that position on, unchanged: line `position` at 4096 + (position - first) * 64
//!
//! header  0 magic "FERRWAL\0"   8 version u32   12 crc u32 of the rest, started from 0   16 uuid of the pool [16]
//!        32 generation of the log's tag u64   40 first u64   48 salt of the records u32   52 zeros, 12 bytes
//! ```
//!
//! A line's place in its file follows from its position alone, so writing it twice is harmless. A crash during draining
//! leaves no state to recover: lines that are not before the log's head are written again.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ferrite_pool::TagLog;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The bytes before the records.
pub(crate) const HEADER_BYTES: u64 = 4096;
const MAGIC: [u8; 8] = *b"FERRWAL\0";
const VERSION: u32 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, PartialEq, Eq)]
#[repr(C)]
struct SegmentHeader {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    uuid: [u8; 16],
    generation: U64,
    first: U64,
    salt: U32,
    reserved: [u8; 12],
}

const _: () = assert!(size_of::<SegmentHeader>() == 64);

/// Returns the header of the segment of `log` that starts at `first`.
pub(crate) fn header(log: &TagLog, uuid: [u8; 16], first: u64) -> Vec<u8> {
    let mut header = SegmentHeader::new_zeroed();
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

/// Returns the fault of `found`, or `None` if it is the header `wanted`.
pub(crate) fn fault(found: &[u8], wanted: &[u8]) -> Option<&'static str> {
    let Ok((header, _)) = SegmentHeader::read_from_prefix(found) else { return Some("it is too short") };
    match () {
        () if header.magic != MAGIC => Some("no header"),
        () if header.version.get() != VERSION => Some("another version"),
        () if crc32fast::hash(&header.as_bytes()[16..]) != header.crc.get() => Some("its header is damaged"),
        () if found.get(..64) != wanted.get(..64) => Some("another log's"),
        () => None,
    }
}

/// Returns true if no byte, or no byte that survived, was written at the start of a segment.
pub(crate) fn is_blank(found: &[u8]) -> bool {
    found.iter().all(|byte| *byte == 0)
}

/// The destination of draining: files by number, on ordinary storage. One thread at a time calls it.
pub trait SegmentFolder: Send {
    /// Returns the numbers of the segments, in any order.
    ///
    /// # Errors
    /// The storage reports an error.
    fn list(&mut self) -> io::Result<Vec<u64>>;

    /// Writes `bytes` into `segment` at byte `at`. Creates a missing segment, and leaves a hole if the segment is
    /// shorter.
    ///
    /// # Errors
    /// The storage reports an error; then the written bytes are undefined.
    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all writes to `segment`, its length and its name durable.
    ///
    /// # Errors
    /// The storage reports an error. Writes to `segment` since its last sync may be lost then, even if a later call
    /// succeeds.
    fn persist_segment(&mut self, segment: u64) -> io::Result<()>;

    /// Reads from `segment` at byte `at`. Returns the number of bytes, which is less than the length of `into` only at
    /// the end.
    ///
    /// # Errors
    /// The storage reports an error, or the segment does not exist.
    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Removes `segment`. The removal is durable after the next sync.
    ///
    /// # Errors
    /// The storage reports an error.
    fn remove(&mut self, segment: u64) -> io::Result<()>;

    /// Returns the location, for messages.
    fn location(&self) -> String;
}

/// A folder of a file system.
#[derive(Debug)]
pub struct SegmentDirectory {
    path: PathBuf,
    /// The file that was used last.
    open: Option<(u64, File)>,
}

impl SegmentDirectory {
    /// Opens the folder at `path`, and creates it if it does not exist. Nothing else should be in it.
    ///
    /// # Errors
    /// The folder cannot be created.
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

impl SegmentFolder for SegmentDirectory {
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

    fn persist_segment(&mut self, segment: u64) -> io::Result<()> {
        // A removed file would sync without an error, and its content would be lost.
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

    fn location(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests;
