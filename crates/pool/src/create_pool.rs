//! Making a pool.

use std::ops::Range;

use ferrite_memory::{ByteCount, Memory, Scheme, Span};

use crate::checked_word::salt;
use crate::lane::LaneSet;
use crate::layout::{
    CHUNK, CHUNK_PAGES, GRANT_SLOTS, GRANTS, LANES, MEMBERS, POOL_BYTES_MIN, SLOT, TAGS, bitmap_at, is_meta, kind_at,
};
use crate::page_allocator::ChunkUse;
use crate::pool::Pool;
use crate::superblock::{FIRST_VERSION, PoolState, Superblock};
use crate::tag_table::encode_header;
use crate::{Error, Result};

/// The bound of a file's size in bytes: sizes are signed 64-bit numbers.
const FILE_BYTES_END: u64 = 1 << 63;

/// The identity of a new pool.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The UUID of the pool; the caller draws it at random.
    pub uuid: [u8; 16],
    /// The current boot of the machine.
    pub boot_id: [u8; 16],
}

impl Pool {
    /// Formats `memory` as a pool. Its previous content is lost. The pool is durable and closed on return: open it to
    /// use it.
    ///
    /// # Errors
    /// As [`Pool::ensure_size`], with `memory` unchanged. [`Error::Medium`] if the memory fails.
    pub fn create(memory: &dyn Memory, format: &Format) -> Result<()> {
        Self::ensure_size(memory.size())?;
        let chunks = memory.size() / CHUNK;
        reserve_tables(memory, 0..chunks)?;
        Superblock::wipe(memory)?;
        add_chunks(memory, 0..chunks);
        memory.zero(Span::new(MEMBERS, GRANTS + GRANT_SLOTS * SLOT - MEMBERS), Scheme::Nt);
        memory.zero(Span::new(TAGS, LANES - TAGS), Scheme::Nt);
        memory.store(TAGS, &encode_header(0), Scheme::Nt);
        LaneSet::format(memory, salt(&format.uuid));
        memory.drain()?;
        let mut superblock = Superblock {
            version: FIRST_VERSION,
            generation: 0,
            uuid: format.uuid,
            size: chunks * CHUNK,
            state: PoolState::Clean,
            boot_id: format.boot_id,
            image: [0; 16],
            trusted: 0,
        };
        superblock.advance(memory)
    }

    /// Refuses a size that a pool cannot have.
    ///
    /// # Errors
    /// [`Error::Limit`] if `bytes` is less than [`crate::layout::POOL_BYTES_MIN`] or more than a file can have.
    pub fn ensure_size(bytes: u64) -> Result<()> {
        let bound = match bytes {
            ..POOL_BYTES_MIN => format!("small: {} at least", ByteCount(POOL_BYTES_MIN)),
            FILE_BYTES_END.. => format!("large: {} at most", ByteCount(FILE_BYTES_END - 1)),
            _ => return Ok(()),
        };
        Err(Error::Limit(format!("a pool of {} is too {bound}", ByteCount(bytes))))
    }
}

/// Reserves the host's storage for the tables of `chunks`. Without it, a store into a full host kills the process.
pub(crate) fn reserve_tables(memory: &dyn Memory, chunks: Range<u64>) -> Result<()> {
    for chunk in chunks.filter(|chunk| is_meta(*chunk)) {
        memory.reserve(Span::new(chunk * CHUNK, CHUNK))?;
    }
    Ok(())
}

/// Writes the tables of new `chunks`, which have to be reserved. Every chunk without tables is free. The caller's next
/// settle makes this durable.
pub(crate) fn add_chunks(memory: &dyn Memory, chunks: Range<u64>) {
    for chunk in chunks {
        let kind = if is_meta(chunk) { ChunkUse::Meta } else { ChunkUse::Free };
        memory.store(kind_at(chunk), &[kind as u8], Scheme::Flush);
        memory.zero(Span::new(bitmap_at(chunk), CHUNK_PAGES / 8), Scheme::Nt);
    }
}
