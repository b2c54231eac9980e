//! Growing: a pool takes what its file or device has become larger by.
//!
//! ```text
//!   | chunks of the pool, as they are        | new chunks: free, or a region's tables | less than a chunk |
//!   ^ superblock: old size                   ^                                        ^ superblock: new size
//! ```
//!
//! - Z1. The tables of the new chunks are durable before the superblock tells of them; a pool of the old size does not
//!   look at them. So a crash leaves the pool with its old size or with the new one, whole, and the same call finishes
//!   it.
//! - Z2. Nothing that the pool holds is moved or written, whatever the new part of the memory held before.
//! - Z3. A pool that cannot be opened is not touched, and neither is one for which there is nothing new.
//!
//! A pool cannot become smaller: a memory that has lost its end is refused as truncated.

use std::sync::Arc;

use ferrite_memory::Memory;
use serde::{Deserialize, Serialize};

use crate::create_pool::{add_chunks, reserve_tables};
use crate::layout::CHUNK;
use crate::superblock::{PoolState, Superblock};
use crate::{Error, Pool, Result};

/// What became of the size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// Bytes of the pool before.
    pub before_bytes: u64,
    /// Bytes of it now: all whole chunks of the memory.
    pub after_bytes: u64,
}

/// Lets the pool in `memory`, which nobody has open, take all of it; durable on return, and closed. One that was not
/// closed in order is recovered first. Where there is no whole chunk more, nothing is done.
///
/// # Errors
/// As [`Pool::open`]. A restore that has not finished ([`Error::Restoring`]) takes the whole memory by itself.
pub fn grow(memory: &Arc<dyn Memory>, boot_id: [u8; 16]) -> Result<Grown> {
    let found = Superblock::read(&**memory)?;
    if found.state == PoolState::Restoring {
        return Err(Error::Restoring);
    }
    let (before_bytes, after_bytes) = (found.size, memory.size() / CHUNK * CHUNK);
    if after_bytes > before_bytes {
        // No record must be left: what a lane holds was judged against the old tables.
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
    memory.settle()?;
    memory.barrier()?;
    superblock.size = size;
    superblock.advance(memory)
}

#[cfg(test)]
mod tests;
