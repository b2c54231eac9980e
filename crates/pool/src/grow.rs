//! Growing: a pool uses the space that was added to its file or device.
//!
//! ```text
//!   | chunks of the pool, as they are        | new chunks: free, or a region's tables | less than a chunk |
//!   ^ superblock: old size                   ^                                        ^ superblock: new size
//! ```
//!
//! - Z1. The tables of the new chunks are durable before the superblock has the new size; a pool of the old size does
//!   not read them. So a crash leaves the pool with its old or its new size, whole, and the same call completes it.
//! - Z2. Growing moves and writes nothing that the pool holds, whatever the new part of the memory held before.
//! - Z3. A pool that cannot be opened, or that has nothing to add, is not written.
//!
//! A pool cannot shrink: a memory that has lost its end is refused as truncated.

use std::sync::Arc;

use ferrite_memory::Memory;
use serde::{Deserialize, Serialize};

use crate::create_pool::{add_chunks, reserve_tables};
use crate::layout::CHUNK;
use crate::superblock::{PoolState, Superblock};
use crate::{Error, Pool, Result};

/// The sizes of a pool before and after growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// The size of the pool before, in bytes.
    pub before_bytes: u64,
    /// The size of the pool now, in bytes: all whole chunks of the memory.
    pub after_bytes: u64,
}

/// Grows the closed pool in `memory` to all of it. The pool is durable and closed on return. A pool that was not closed
/// in order is recovered first. If there is no new whole chunk, nothing is written.
///
/// # Errors
/// As [`Pool::open`]. [`Error::Restoring`] for an unfinished restore, which itself takes the whole memory.
pub fn grow(memory: &Arc<dyn Memory>, boot_id: [u8; 16]) -> Result<Grown> {
    let found = Superblock::read(&**memory)?;
    if found.state == PoolState::Restoring {
        return Err(Error::Restoring);
    }
    let (before_bytes, after_bytes) = (found.size, memory.size() / CHUNK * CHUNK);
    if after_bytes > before_bytes {
        // No record may be left in a lane: it was checked against the old tables.
        Pool::open(Arc::clone(memory), boot_id)?.0.close()?;
        extend(&**memory, after_bytes)?;
    }
    Ok(Grown { before_bytes, after_bytes })
}

/// Extends the closed pool in `memory` to `size` bytes (Z1).
fn extend(memory: &dyn Memory, size: u64) -> Result<()> {
    let mut superblock = Superblock::read(memory)?;
    let new = superblock.size / CHUNK..size / CHUNK;
    reserve_tables(memory, new.clone())?;
    add_chunks(memory, new);
    memory.drain()?;
    memory.barrier()?;
    superblock.size = size;
    superblock.advance(memory)
}

#[cfg(test)]
mod tests;
