//! A table that grows while it is read, without a lock and without moving.

use std::io::ErrorKind;
use std::sync::OnceLock;

use ferrite_pool::Result;
use zerocopy::FromZeros;

/// Entries of a segment.
const SEGMENT: usize = 1 << 18;

/// So many zeros, or the error that says that there is no memory for them.
pub(crate) fn zeroed<T: FromZeros>(count: usize) -> Result<Box<[T]>> {
    let wanting = |_| ferrite_memory::Error::io("memory for a disk's tables", ErrorKind::OutOfMemory.into());
    Ok(<[T]>::new_box_zeroed_with_elems(count).map_err(wanting)?)
}

/// Rows of zeros at first, there for good once made, in segments of 262144. What is never touched takes no memory.
pub(crate) struct GrowingTable<T> {
    segments: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: FromZeros> GrowingTable<T> {
    /// A table that can hold `rows_max` rows and has none.
    pub fn new(rows_max: u64) -> Self {
        let segments = rows_max.div_ceil(SEGMENT as u64);
        Self { segments: (0..segments).map(|_| OnceLock::new()).collect() }
    }

    /// Makes sure that rows `0 .. rows` are there.
    ///
    /// # Errors
    /// Where there is no memory for them: more than before may be there then.
    pub fn grow(&self, rows: u64) -> Result<()> {
        let needed = rows.div_ceil(SEGMENT as u64) as usize;
        for segment in self.segments[..needed].iter().filter(|segment| segment.get().is_none()) {
            let rows = zeroed(SEGMENT)?;
            segment.get_or_init(|| rows);
        }
        Ok(())
    }

    /// Row `index`, if it has been grown to.
    pub fn get(&self, index: u64) -> Option<&T> {
        self.segments.get(index as usize / SEGMENT)?.get().map(|segment| &segment[index as usize % SEGMENT])
    }

    /// Row `index`, which has been grown to.
    #[inline]
    pub fn row(&self, index: u64) -> &T {
        let segment = self.segments[index as usize / SEGMENT].get().expect("grown to");
        &segment[index as usize % SEGMENT]
    }
}

#[cfg(test)]
mod tests;
