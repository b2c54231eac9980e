//! A table that grows while it is read, without a lock and without moving.

use std::sync::OnceLock;

use zerocopy::FromZeros;

/// Entries of a segment.
const SEGMENT: usize = 1 << 18;

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
    pub fn grow(&self, rows: u64) {
        let needed = rows.div_ceil(SEGMENT as u64) as usize;
        for segment in &self.segments[..needed] {
            segment.get_or_init(|| <[T]>::new_box_zeroed_with_elems(SEGMENT).expect("memory for a disk's tables"));
        }
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
        table.grow(1);
        table.row(0).store(7, Ordering::Relaxed);
        table.grow(2 * SEGMENT as u64 + 1);
        assert_eq!(table.row(0).load(Ordering::Relaxed), 7);
        assert_eq!(table.row(2 * SEGMENT as u64).load(Ordering::Relaxed), 0);
    }
}
