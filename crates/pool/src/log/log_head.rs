//! The head of a log: the places of its parts, and its first position.

use ferrite_memory::{Memory, Span};

use crate::bounds::{SEQUENCE_BOUND, out_of_bounds};
use crate::check::MovedRange;
use crate::checked_word::{seal, unseal};
use crate::extent::{Role, Stream};
use crate::layout::PAGE;
use crate::tag::Tag;
use crate::{Error, Pool, Result};

/// Bytes of a payload before the caller's bytes.
pub(super) const SESSION: usize = 8;

/// The position of a record in a log. Later records have greater positions, over the whole life of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub(super) u64);

impl LogPosition {
    /// Returns the position with this number.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the position's number, by which a caller can store it.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// The places of a log's parts, and its head.
pub(super) struct LogLayout {
    pub stream: Stream,
    pub head_at: u64,
    pub head_salt: u32,
    pub head: u64,
}

impl LogLayout {
    /// Reads the layout of the log in `tag` of the pool `uuid` in `memory`. An error says which part is damaged.
    pub fn read(memory: &dyn Memory, uuid: &[u8; 16], tag: &Tag) -> Result<Self> {
        let (stream, map) = (Stream::new(&tag.extents, Role::DATA), Stream::new(&tag.extents, Role::MAP));
        let head_at = map.locate(0).filter(|_| is_ring(tag.size, &stream)).map(|page| page.at);
        let head_at = head_at.ok_or_else(|| {
            let first = tag.extents.first().map_or(0, |extent| extent.span().at);
            Error::corrupt(format!("the layout of log {:?}", tag.name), first)
        })?;
        let head_salt = salt(uuid, head_at);
        let head = unseal(head_salt, memory.load_word(head_at));
        let head = head.ok_or_else(|| Error::corrupt(format!("the head of log {:?}", tag.name), head_at))?;
        if head >= SEQUENCE_BOUND {
            return Err(Error::corrupt(out_of_bounds(&format!("the head of log {:?}", tag.name), head), head_at));
        }
        Ok(Self { stream, head_at, head_salt, head })
    }
}

/// Returns the position of the oldest record of the log in `tag`. Writes nothing.
///
/// # Errors
/// [`Error::Corrupt`] if the layout or the head is damaged.
pub(crate) fn head_of_log(pool: &Pool, tag: &Tag) -> Result<LogPosition> {
    LogLayout::read(pool.memory(), &pool.superblock().uuid, tag).map(|layout| LogPosition(layout.head))
}

/// Writes the head word of an empty log at byte `at`, durable on return. The caller zeroes the rest of the page.
pub(crate) fn make_head(pool: &Pool, at: u64) -> Result<()> {
    pool.memory().store_word(at, seal(salt(&pool.superblock().uuid, at), 0));
    Ok(pool.memory().persist(Span::new(at, 8))?)
}

/// If the head word of the log in `tag` lies in the moved range, seals it for its new place.
///
/// # Errors
/// [`Error::Corrupt`] if the head is damaged.
pub fn relocate_log(pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
    let LogLayout { head_at, head, .. } = LogLayout::read(pool.memory(), &pool.superblock().uuid, tag)?;
    let Some(within) = head_at.checked_sub(moved.from.at).filter(|within| *within < moved.from.len) else {
        return Ok(());
    };
    let at = moved.to.at + within;
    pool.memory().store_word(at, seal(salt(&pool.superblock().uuid, at), head));
    pool.memory().flush(Span::new(at, 8));
    Ok(())
}

/// Returns true if `stream` has room for a ring of `size` bytes.
fn is_ring(size: u64, stream: &Stream) -> bool {
    size > 0 && size.is_multiple_of(PAGE) && size <= stream.len()
}

/// Returns the start of checksums. For records, `number` is the generation of the log's tag, so each log ever made has
/// a salt of its own; for the head word, `number` is its place.
pub(super) fn salt(uuid: &[u8; 16], number: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(uuid);
    hasher.update(&number.to_le_bytes());
    hasher.finalize()
}
