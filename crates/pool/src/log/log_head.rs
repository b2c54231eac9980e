//! The head of a log: where its parts lie, and where it begins.

use ferrite_memory::{Memory, Span};

use crate::bounds::{SEQUENCE_BOUND, beyond};
use crate::check::MovedRange;
use crate::checked_word::{seal, unseal};
use crate::extent::{Role, Stream};
use crate::layout::PAGE;
use crate::tag::Tag;
use crate::{Error, Pool, Result};

/// Bytes of payload before the caller's.
pub(super) const SESSION: usize = 8;

/// Where a record is in a log. Later records have greater positions, over the whole life of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub(super) u64);

impl LogPosition {
    /// The position that was noted as `number`.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// A number to note it by.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Where a log's parts lie, and its head.
pub(super) struct LogLayout {
    pub stream: Stream,
    pub head_at: u64,
    pub head_salt: u32,
    pub head: u64,
}

impl LogLayout {
    /// Reads that of `tag` in the pool `uuid` in `memory`; an error says what is damaged.
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
            return Err(Error::corrupt(beyond(&format!("the head of log {:?}", tag.name), head), head_at));
        }
        Ok(Self { stream, head_at, head_salt, head })
    }
}

/// Where the oldest record of the log in `tag` is. Reads only.
///
/// # Errors
/// [`Error::Corrupt`].
pub(crate) fn head_of_log(pool: &Pool, tag: &Tag) -> Result<LogPosition> {
    LogLayout::read(pool.memory(), &pool.superblock().uuid, tag).map(|layout| LogPosition(layout.head))
}

/// Writes the head word of an empty log at byte `at`, durable on return; the rest of its page is zeros.
pub(crate) fn make_head(pool: &Pool, at: u64) -> Result<()> {
    pool.memory().store_word(at, seal(salt(&pool.superblock().uuid, at), 0));
    Ok(pool.memory().persist(Span::new(at, 8))?)
}

/// Seals the head word of the log in `tag` anew for its new place, if it is in what was moved.
///
/// # Errors
/// [`Error::Corrupt`] where the head is damaged.
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

/// Whether a ring of `size` bytes can lie in `stream`.
fn is_ring(size: u64, stream: &Stream) -> bool {
    size > 0 && size.is_multiple_of(PAGE) && size <= stream.len()
}

/// What checksums start from: of the records another for each log there ever was, by its generation; of the head word
/// another for each place.
pub(super) fn salt(uuid: &[u8; 16], number: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(uuid);
    hasher.update(&number.to_le_bytes());
    hasher.finalize()
}
