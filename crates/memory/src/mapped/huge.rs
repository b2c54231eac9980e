//! Which parts of a mapping are known to lie in huge pages.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Span;

/// Bytes of a huge page.
pub(super) const HUGE: u64 = 2 << 20;

/// A bit for each huge page that the mapping could consist of. The kernel takes huge pages back without a word, so it
/// says what is probably fast, and nothing else.
pub(super) struct HugePages {
    bits: Box<[AtomicU64]>,
    are_wanted: bool,
}

impl HugePages {
    /// None known, of a mapping of `size` bytes.
    pub fn new(size: u64, are_wanted: bool) -> Self {
        Self { bits: (0..size.div_ceil(64 * HUGE)).map(|_| AtomicU64::new(0)).collect(), are_wanted }
    }

    /// Returns true if the mapping should ask for huge pages.
    pub fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    /// Notes whether the page that starts at byte `at` is huge.
    pub fn note(&self, at: u64, is_huge: bool) {
        let (word, bit) = self.bit(at);
        if is_huge {
            word.fetch_or(bit, Ordering::Relaxed)
        } else {
            word.fetch_and(!bit, Ordering::Relaxed)
        };
    }

    /// Whether all of `span`, which lies within the mapping, is known to lie in huge pages.
    pub fn hold(&self, span: Span) -> bool {
        (span.at / HUGE..(span.at + span.len).div_ceil(HUGE)).all(|page| {
            let (word, bit) = self.bit(page * HUGE);
            word.load(Ordering::Relaxed) & bit != 0
        })
    }

    fn bit(&self, at: u64) -> (&AtomicU64, u64) {
        let page = at / HUGE;
        (&self.bits[(page / 64) as usize], 1 << (page % 64))
    }
}
