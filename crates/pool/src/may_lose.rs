//! Content that is lost when a pool is made or restored in an existing file or device.
//!
//! A refusal prints the number of bytes, and the user confirms by repeating that number. So a user loses no content
//! that was not reported, and a file that has grown since is refused again. A file or device of zeros has no content.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ferrite_memory::{Error as MediumError, Guard, MapOptions, Mapped, Memory, Span};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::grant::ensure_no_clients;
use crate::layout::{CHUNK, POOL_BYTES_MIN, SUPERBLOCKS};
use crate::superblock::{PoolState, Superblock};
use crate::{Error, Result, show_uuid};
use crate::{Lock, Progress};

/// Bytes that are read and compared at once.
const PIECE: u64 = 1 << 20;
static ZEROS: [u8; PIECE as usize] = [0; PIECE as usize];

const LOOKING: &str = "looking for content";

/// The content that a caller may destroy when it makes a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct MayLose {
    /// The size of the file or device in bytes, which confirms that all of its content may be lost.
    pub lose: Option<u64>,
    /// The image to restore: an interrupted restore of the same image may continue.
    pub image: Option<[u8; 16]>,
    /// This boot of the machine.
    pub boot_id: [u8; 16],
}

/// An existing file or device.
enum LossTarget<'a> {
    File { file: &'a File, bytes: u64 },
    Device(Box<Mapped>),
}

/// Returns true if a new pool in the file or device of `lock` destroys content, and `may` allows that.
///
/// # Errors
/// [`Error::Occupied`] with the number of bytes if `may` does not name it, [`Error::Busy`] if clients still use a pool
/// there, [`Error::Cancelled`] if `watch` returns false, [`Error::Medium`] if reading fails.
pub fn ensure_may_be_lost(lock: &Lock, may: &MayLose, watch: &mut dyn FnMut(Progress) -> bool) -> Result<bool> {
    let place = LossTarget::of(lock)?;
    let bytes = place.bytes();
    let pools = place.superblocks()?;
    let newest = pools.iter().flatten().max_by_key(|found| found.generation);
    if newest.is_some_and(|found| found.state == PoolState::Restoring && Some(found.image) == may.image) {
        return Ok(false);
    }
    if may.lose == Some(bytes) && bytes > 0 {
        ensure_unused(lock, bytes, may.boot_id)?;
        return Ok(true);
    }
    if place.is_blank(watch)? {
        return Ok(false);
    }
    let is_pool = |found: &Result<Superblock>| !matches!(found, Err(Error::NotAPool(_)));
    let what = match newest {
        Some(found) if found.state == PoolState::Restoring => {
            "an unfinished restore of another image: restore that image again".into()
        }
        Some(found) => format!("pool {}", show_uuid(&found.uuid)),
        None if pools.iter().any(is_pool) => "a damaged pool, or one of a newer version".into(),
        None => "data other than a pool".into(),
    };
    let path = lock.path().display();
    Err(Error::Occupied(format!("{path} holds {what}. Its {bytes} bytes would be lost: --lose {bytes} loses them")))
}

/// Refuses to replace a pool whose owner has ended while clients still run: they would store into the new content.
fn ensure_unused(lock: &Lock, bytes: u64, boot_id: [u8; 16]) -> Result<()> {
    if bytes < POOL_BYTES_MIN {
        return Ok(());
    }
    let memory: Arc<dyn Memory> = Arc::new(lock.map(&options(lock))?);
    // Reading a page that does not exist yet allocates a page of the host.
    memory.reserve(Span::new(0, CHUNK))?;
    match ensure_no_clients(&memory, boot_id) {
        Err(Error::Busy(why)) => Err(Error::Busy(format!("{}: {why}", lock.path().display()))),
        other => other,
    }
}

fn options(lock: &Lock) -> MapOptions {
    MapOptions { guard: Guard::None, name: lock.path().display().to_string(), ..MapOptions::default() }
}

/// Returns true if all of `file`, which has `bytes`, reads as zeros. Holes are not read.
fn is_blank_file(file: &File, bytes: u64, watch: &mut dyn FnMut(u64) -> Result<()>) -> io::Result<Result<bool>> {
    let (mut at, mut piece) = (0, vec![0; PIECE as usize]);
    while at < bytes {
        match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => {}
            found => at = found?,
        }
        let read = file.read_at(&mut piece, at)?;
        if piece[..read] != ZEROS[..read] {
            return Ok(Ok(false));
        }
        if read == 0 {
            break;
        }
        at += read as u64;
        if let Err(stopped) = watch(at) {
            return Ok(Err(stopped));
        }
    }
    Ok(Ok(true))
}

impl<'a> LossTarget<'a> {
    fn of(lock: &'a Lock) -> Result<Self> {
        let found = lock.file().metadata();
        let found = found.map_err(|e| MediumError::io(format!("looking at {}", lock.path().display()), e))?;
        match found.is_file() {
            true => Ok(Self::File { file: lock.file(), bytes: found.len() }),
            false => Ok(Self::Device(Box::new(lock.map(&options(lock))?))),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::File { bytes, .. } => *bytes,
            Self::Device(memory) => memory.size(),
        }
    }

    /// Returns the superblocks, one for each of their places that lies within the file or device.
    fn superblocks(&self) -> Result<Vec<Result<Superblock>>> {
        let mut found = Vec::new();
        for at in SUPERBLOCKS {
            let mut bytes = [0; 128];
            match self {
                Self::Device(memory) => memory.load(at, &mut bytes),
                Self::File { file, .. } => match file.read_exact_at(&mut bytes, at) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                    read => read.map_err(|error| MediumError::io("looking for a pool", error))?,
                },
            }
            found.push(Superblock::decode(&bytes));
        }
        Ok(found)
    }

    fn is_blank(&self, watch: &mut dyn FnMut(Progress) -> bool) -> Result<bool> {
        let total = self.bytes();
        let mut looked = |done| match watch(Progress { done, total, what: LOOKING.into() }) {
            true => Ok(()),
            false => Err(Error::Cancelled(LOOKING)),
        };
        let memory = match self {
            Self::File { file, bytes } => {
                let found = is_blank_file(file, *bytes, &mut looked);
                return found.map_err(|error| MediumError::io(LOOKING, error))?;
            }
            Self::Device(memory) => memory,
        };
        let mut piece = vec![0; PIECE as usize];
        for at in (0..total).step_by(PIECE as usize) {
            let piece = &mut piece[..PIECE.min(total - at) as usize];
            memory.load(at, piece);
            if *piece != ZEROS[..piece.len()] {
                return Ok(false);
            }
            looked(at + piece.len() as u64)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
