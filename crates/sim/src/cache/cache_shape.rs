//! The size of a cache.

use crate::{Error, Result};

/// Most ways that a set may have: which of them are dirty is one word.
pub const WAYS_MAX: u32 = 64;

/// Most sets, so that their states fit into memory.
const SETS_MAX: u64 = 1 << 28;

/// A cache: sets of ways of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Its size.
    pub bytes: u64,
    /// Lines a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
}

impl CacheShape {
    /// How many sets it has.
    ///
    /// # Errors
    /// When the sizes make no cache: the sets and the bytes of a line are powers of two, the ways at most
    /// [`WAYS_MAX`].
    pub fn sets(&self) -> Result<u32> {
        let Self { bytes, ways, line_bytes } = *self;
        let told = |why: String| Err(Error::Model(format!("a cache of {bytes} bytes, {ways} ways: {why}")));
        if ways == 0 || ways > WAYS_MAX {
            return told(format!("1 to {WAYS_MAX} ways can be simulated"));
        }
        if !line_bytes.is_power_of_two() || line_bytes < 8 {
            return told(format!("a line of {line_bytes} bytes is no power of two from 8 up"));
        }
        let way_bytes = u64::from(ways) * u64::from(line_bytes);
        let sets = bytes / way_bytes;
        if !bytes.is_multiple_of(way_bytes) || !sets.is_power_of_two() {
            return told(format!("{sets} sets of {way_bytes} bytes do not make it up, or are no power of two"));
        }
        if sets > SETS_MAX {
            return told(format!("more than {SETS_MAX} sets"));
        }
        Ok(sets as u32)
    }
}

#[cfg(test)]
mod tests;
