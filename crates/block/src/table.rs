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
pub(crate) struct Table<T> {
    segments: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: FromZeros> Table<T> {
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
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn rows_stay_when_it_grows() {
        let table = Table::<AtomicU32>::new(3 * SEGMENT as u64);
        table.grow(1).expect("memory");
        table.row(0).store(7, Ordering::Relaxed);
        table.grow(2 * SEGMENT as u64 + 1).expect("memory");
        assert_eq!(table.row(0).load(Ordering::Relaxed), 7);
        assert_eq!(table.row(2 * SEGMENT as u64).load(Ordering::Relaxed), 0);
    }
    #[test]
    fn want_of_memory_is_an_error_and_takes_no_row_away() {
        let table = Table::<[u8; 1 << 45]>::new(1);
        let Err(ferrite_pool::Error::Medium(ferrite_memory::Error::Io { source, .. })) = table.grow(1) else {
            panic!("no computer has that");
        };
        assert_eq!(source.kind(), ErrorKind::OutOfMemory);
        assert!(table.get(0).is_none());
        table.grow(0).expect("nothing is wanted");
    }
}
