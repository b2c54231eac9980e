//! A trace as a stream of bytes: a file or a pipe, as it is or compressed with gzip, xz or zstd, told by content.

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

/// Bytes read at once. Who asks for as many gets them without a copy between.
pub const CHUNK: usize = 1 << 18;

/// First bytes of each compressed form.
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The last three of the four with which a frame begins that zstd skips; pzstd puts one before each other.
const SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];

/// How far back `zstd --long` may look, as a power of two: the most that its format has on 64 bits.
const WINDOW_LOG_MAX: u32 = 31;

/// What some programs put before text: UTF-8's byte order mark.
pub const MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// An open trace, uncompressed as it is read.
pub struct TraceInput {
    /// Its name, for messages.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Box<dyn BufRead + Send>,
}

impl TraceInput {
    /// Opens the file at `path`; `-` is standard input. A file can be opened again, also by that name.
    ///
    /// # Errors
    /// When it cannot be opened or its first bytes cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let file = input_file().map_err(Error::io("opening the file that standard input is"))?;
            return file.map_or_else(|| Self::over(path, io::stdin()), |file| Self::over(path, file));
        }
        let opened = File::open(path).map_err(Error::io(format!("opening {}", path.display())))?;
        Self::over(path, opened)
    }

    /// What `reader` gives, called `path` in messages.
    ///
    /// # Errors
    /// When its first bytes cannot be read.
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

    /// Returns the first bytes, at most `limit`, without taking them. There are fewer only at the end, or before an error,
    /// which the next reader of these bytes meets behind them.
    ///
    /// # Errors
    /// When not even the first byte can be read.
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

    /// Takes the byte order mark before the text, if there is one.
    ///
    /// # Errors
    /// When the first bytes cannot be read.
    pub fn skip_mark(&mut self) -> Result<()> {
        if self.peek(MARK.len())? == MARK {
            let mut mark = [0; MARK.len()];
            self.bytes.read_exact(&mut mark).map_err(|error| Error::reading(&self.path, 0, error))?;
        }
        Ok(())
    }

    /// Refuses a trace without a byte.
    ///
    /// # Errors
    /// [`Error::Truncated`]; and when its first bytes cannot be read.
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

/// The file that standard input is, if it is one, from where it stands: with an offset of its own.
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

/// Fails once.
struct FailingReader(Option<io::Error>);

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Returns enough of the first bytes to detect every compression, even if a pipe gives them one by one.
fn begin(raw: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    raw.take(foreign_container::TOLD_BY.max(XZ.len()) as u64).read_to_end(&mut begin)?;
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
