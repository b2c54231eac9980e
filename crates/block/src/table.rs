//! A table that grows while other threads read it, without a lock and without moving.

use std::io::ErrorKind;
use std::sync::OnceLock;

use ferrite_pool::Result;
use zerocopy::FromZeros;

/// Rows of a segment.
const SEGMENT: usize = 1 << 18;

/// Allocates `count` zeros.
pub(crate) fn zeroed<T: FromZeros>(count: usize) -> Result<Box<[T]>> {
    let wanting = |_| ferrite_memory::Error::io("memory for a disk's tables", ErrorKind::OutOfMemory.into());
    Ok(<[T]>::new_box_zeroed_with_elems(count).map_err(wanting)?)
}

/// A table of rows that start as zeros, in segments of 262144. A row never moves. Untouched rows take no memory.
pub(crate) struct GrowingTable<T> {
    segments: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: FromZeros> GrowingTable<T> {
    /// Makes an empty table that can grow to `rows_max` rows.
    pub fn new(rows_max: u64) -> Self {
        let segments = rows_max.div_ceil(SEGMENT as u64);
        Self { segments: (0..segments).map(|_| OnceLock::new()).collect() }
    }

    /// Grows the table to at least `rows` rows.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Medium`] if there is no memory for them. The table may have grown in part.
    pub fn grow(&self, rows: u64) -> Result<()> {
        let needed = rows.div_ceil(SEGMENT as u64) as usize;
        for segment in self.segments[..needed].iter().filter(|segment| segment.get().is_none()) {
            let rows = zeroed(SEGMENT)?;
            segment.get_or_init(|| rows);
        }
        Ok(())
    }

    /// Returns row `index`, if the table has grown to it.
    pub fn get(&self, index: u64) -> Option<&T> {
        self.segments.get(index as usize / SEGMENT)?.get().map(|segment| &segment[index as usize % SEGMENT])
    }

    /// Returns row `index`, to which the table has grown.
    #[inline]
    pub fn row(&self, index: u64) -> &T {
        let segment = self.segments[index as usize / SEGMENT].get().expect("grown to");
        &segment[index as usize % SEGMENT]
    }
}

#[cfg(test)]
mod tests;
