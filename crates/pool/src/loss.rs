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
use crate::superblock::{State, Superblock};
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
enum Place<'a> {
    File { file: &'a File, bytes: u64 },
    Device(Box<Mapped>),
}

/// Returns true if a new pool in the file or device of `lock` destroys content, and `may` allows that.
///
/// # Errors
/// [`Error::Occupied`] with the number of bytes if `may` does not name it, [`Error::Busy`] if clients still use a pool
/// there, [`Error::Cancelled`] if `watch` returns false, [`Error::Medium`] if reading fails.
pub fn ensure_may_be_lost(lock: &Lock, may: &MayLose, watch: &mut dyn FnMut(Progress) -> bool) -> Result<bool> {
    let place = Place::of(lock)?;
    let bytes = place.bytes();
    let pools = place.superblocks()?;
    let newest = pools.iter().flatten().max_by_key(|found| found.generation);
    if newest.is_some_and(|found| found.state == State::Restoring && Some(found.image) == may.image) {
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
        Some(found) if found.state == State::Restoring => "another image, half restored: restore that one again".into(),
        Some(found) => format!("pool {}", show_uuid(&found.uuid)),
        None if pools.iter().any(is_pool) => "a damaged pool, or one of a newer version".into(),
        None => "something that is no pool".into(),
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

impl<'a> Place<'a> {
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
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::{Claim, claim};
    use crate::{Format, Pool};

    fn lock(path: &Path) -> Lock {
        match claim(path).expect("claimed") {
            Claim::Ours(lock) => lock,
            Claim::Held(holder) => panic!("{holder}"),
        }
    }

    fn asked(path: &Path, lose: Option<u64>) -> Result<bool> {
        let image = Some([7; 16]);
        ensure_may_be_lost(&lock(path), &MayLose { lose, image, boot_id: [1; 16] }, &mut |_| true)
    }

    /// A single nonzero byte is content, and only the exact number of bytes allows its loss.
    #[test]
    fn content_is_lost_only_by_its_size() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        for size in [1, 4096, PIECE + 1, 9 * PIECE + 77] {
            for at in [0, size / 2, size - 1] {
                fs::write(&path, vec![0; size as usize]).expect("written");
                assert!(!asked(&path, None).expect("zeros"), "{size}");
                File::options().write(true).open(&path).expect("open").write_all_at(b"x", at).expect("written");
                for lose in [None, Some(0), Some(size + 1), Some(size - 1)] {
                    let said = asked(&path, lose).expect_err("it is lost").to_string();
                    assert!(said.contains(&format!("--lose {size} ")), "{size} {at} {lose:?}: {said}");
                }
                assert!(asked(&path, Some(size)).expect("it may be lost"));
            }
        }
        fs::write(&path, "").expect("written");
        assert!(!asked(&path, None).expect("nothing"));
    }

    /// The search skips holes: it passes 1 PiB of holes at once, and finds one byte behind them.
    #[test]
    fn holes_are_not_read() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("folder");
        let path = folder.path().join("file");
        let file = File::create(&path).expect("made");
        file.set_len(1 << 50).expect("sized");
        assert!(!asked(&path, None).expect("holes"));
        file.write_all_at(b"x", (1 << 50) - 1).expect("written");
        assert!(asked(&path, None).is_err());
    }

    #[test]
    fn a_pool_is_told_and_its_own_half_restored_image_goes_on() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        File::create(&path).expect("made").set_len(POOL_BYTES_MIN).expect("sized");
        let held = lock(&path);
        let memory = held.map(&options(&held)).expect("mapped");
        Pool::create(&memory, &Format { uuid: [3; 16], boot_id: [1; 16] }).expect("made");
        drop(held);
        let said = |lose| asked(&path, lose).expect_err("a pool").to_string();
        assert!(said(None).contains("holds pool 03030303-"), "{}", said(None));
        assert!(asked(&path, Some(POOL_BYTES_MIN)).expect("it may be lost"));
        let mut superblock = Superblock::read(&memory).expect("a pool");
        (superblock.state, superblock.image) = (State::Restoring, [8; 16]);
        superblock.advance(&memory).expect("written");
        assert!(said(None).contains("another image, half restored"), "{}", said(None));
        superblock.image = [7; 16];
        superblock.advance(&memory).expect("written");
        assert!(!asked(&path, None).expect("the same image"));
    }

    /// The caller can cancel a long search for content.
    #[test]
    fn a_look_is_watched() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        fs::write(&path, vec![0; 3 * PIECE as usize]).expect("written");
        let mut seen = Vec::new();
        let stopped = ensure_may_be_lost(&lock(&path), &MayLose::default(), &mut |it| {
            seen.push(it.done);
            seen.len() < 2
        });
        assert!(matches!(stopped, Err(Error::Cancelled(_))));
        assert_eq!(seen, [PIECE, 2 * PIECE]);
    }
}
