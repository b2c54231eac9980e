//! A trace as a stream of bytes: a file or a pipe, plain or compressed with gzip, xz or zstd. The content decides
//! which.

mod decompression;
mod foreign_container;
mod gzip_members;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::{Error, Result};
use decompression::DecompressedReader;
use gzip_members::GzipMembers;

/// Bytes of one read. A reader with a buffer of this size gets them without a copy.
pub const CHUNK: usize = 1 << 18;

/// First bytes of each compressed form.
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The last three of the four bytes that begin a frame which zstd skips; pzstd writes one before each other frame.
const SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];

/// How far back `zstd --long` may refer, as a power of two: the maximum of its format on 64 bits.
const WINDOW_LOG_MAX: u32 = 31;

/// UTF-8's byte order mark, which some programs write before text.
pub const MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// An open trace, decompressed while it is read.
pub struct TraceInput {
    /// The path, for messages.
    pub path: PathBuf,
    /// The content.
    pub bytes: Box<dyn BufRead + Send>,
}

impl TraceInput {
    /// Opens the file at `path`; `-` is standard input. A file can be opened again, also through `-`.
    ///
    /// # Errors
    /// The file cannot be opened, or its first bytes cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let file = input_file().map_err(Error::io("opening the file that standard input is"))?;
            return file.map_or_else(|| Self::over(path, io::stdin()), |file| Self::over(path, file));
        }
        let opened = File::open(path).map_err(Error::io(format!("opening {}", path.display())))?;
        Self::over(path, opened)
    }

    /// Returns the trace that `reader` reads; messages call it `path`.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn over(path: &Path, reader: impl Read + Send + 'static) -> Result<Self> {
        let mut raw = BufReader::with_capacity(CHUNK, reader);
        let begin = begin(&mut raw).map_err(Error::io(format!("reading {}", path.display())))?;
        if let Some(advice) = foreign_container::advice(&begin, &path.display().to_string()) {
            return Err(Error::malformed(path, 1, advice));
        }
        let bytes = uncompressed(&begin, io::Cursor::new(begin.clone()).chain(raw));
        let bytes = bytes.map_err(|error| Error::reading(path, 0, error))?;
        Ok(Self { path: path.into(), bytes })
    }

    /// Returns the first bytes, at most `limit`, without consuming them. Fewer are returned only at the end, or before
    /// an error, which the next reader of these bytes meets behind them.
    ///
    /// # Errors
    /// Not even the first byte can be read.
    pub fn peek(&mut self, limit: usize) -> Result<Vec<u8>> {
        let mut taken = Vec::new();
        let read = (&mut self.bytes).take(limit as u64).read_to_end(&mut taken);
        match read {
            Err(error) if taken.is_empty() => return Err(Error::reading(&self.path, 0, error)),
            Err(error) => self.bytes = Box::new(BufReader::new(FailingReader(Some(error)))),
            Ok(_) => {}
        }
        self.give_back(taken.clone());
        Ok(taken)
    }

    /// Consumes the byte order mark before the text, if the trace begins with it.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn skip_mark(&mut self) -> Result<()> {
        if self.peek(MARK.len())? == MARK {
            let mut mark = [0; MARK.len()];
            self.bytes.read_exact(&mut mark).map_err(|error| Error::reading(&self.path, 0, error))?;
        }
        Ok(())
    }

    /// Refuses an empty trace.
    ///
    /// # Errors
    /// [`Error::Truncated`]; an error if the first bytes cannot be read.
    pub fn ensure_content(&mut self) -> Result<()> {
        let begin = self.bytes.fill_buf().map_err(|error| Error::reading(&self.path, 0, error))?;
        if begin.is_empty() {
            return Err(Error::empty(&self.path));
        }
        Ok(())
    }

    fn give_back(&mut self, taken: Vec<u8>) {
        let rest = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
        self.bytes = Box::new(BufReader::with_capacity(CHUNK, io::Cursor::new(taken).chain(rest)));
    }
}

/// Opens the regular file behind standard input, from the current offset, with an offset of its own. Returns `None` if
/// standard input is not a regular file.
fn input_file() -> io::Result<Option<File>> {
    let stdin = io::stdin();
    let is_file = rustix::fs::fstat(&stdin).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file());
    if !is_file {
        return Ok(None);
    }
    let at = rustix::fs::tell(&stdin)?;
    let mut file = File::open("/dev/stdin")?;
    file.seek(SeekFrom::Start(at))?;
    Ok(Some(file))
}

/// A reader that fails once, and then is at its end.
struct FailingReader(Option<io::Error>);

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Returns enough of the first bytes to detect every compression, even if a pipe delivers them one by one.
fn begin(raw: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    raw.take(foreign_container::DETECTED_BY.max(XZ.len()) as u64).read_to_end(&mut begin)?;
    Ok(begin)
}

fn uncompressed(begin: &[u8], raw: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    Ok(if begin.starts_with(GZIP) {
        Box::new(DecompressedReader::of(GzipMembers::of(raw))?)
    } else if begin.starts_with(XZ) {
        Box::new(DecompressedReader::of(lzma_rust2::XzReader::new(raw, true))?)
    } else if begin.starts_with(ZSTD) || is_skipped(begin) {
        let mut decoder = zstd::Decoder::with_buffer(raw)?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Box::new(DecompressedReader::of(decoder)?)
    } else {
        Box::new(raw)
    })
}

fn is_skipped(begin: &[u8]) -> bool {
    begin.first().is_some_and(|byte| byte & 0xf0 == 0x50) && begin[1..].starts_with(SKIPPED)
}

#[cfg(test)]
mod tests;
