//! The shape of a cache: its size, ways and lines.

use crate::{Error, Result};

/// The most ways of a set: the dirty ways are one word.
pub const WAYS_MAX: u32 = 64;

/// The most sets, so that their states fit into memory.
const SETS_MAX: u64 = 1 << 28;

/// The shape of a cache: sets of ways of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Bytes of the cache.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
}

impl CacheShape {
    /// Returns the number of sets.
    ///
    /// # Errors
    /// The sizes describe no cache: the sets and the bytes of a line must be powers of two, the ways at most
    /// [`WAYS_MAX`].
    pub fn sets(&self) -> Result<u32> {
        let Self { bytes, ways, line_bytes } = *self;
        let refuse = |why: String| Err(Error::Model(format!("a cache of {bytes} bytes, {ways} ways: {why}")));
        if ways == 0 || ways > WAYS_MAX {
            return refuse(format!("1 to {WAYS_MAX} ways can be simulated"));
        }
        if !line_bytes.is_power_of_two() || line_bytes < 8 {
            return refuse(format!("a line of {line_bytes} bytes is not a power of two of at least 8"));
        }
        let way_bytes = u64::from(ways) * u64::from(line_bytes);
        let sets = bytes / way_bytes;
        if !bytes.is_multiple_of(way_bytes) || !sets.is_power_of_two() {
            return refuse(format!("its size is not a power of two of sets of {way_bytes} bytes"));
        }
        if sets > SETS_MAX {
            return refuse(format!("more than {SETS_MAX} sets"));
        }
        Ok(sets as u32)
    }
}

#[cfg(test)]
mod tests;
