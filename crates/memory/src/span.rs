//! A run of bytes: where it starts and how long it is.

/// Bytes `at .. at + len` of a memory or a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub at: u64,
    /// Length in bytes; may be zero.
    pub len: u64,
}

impl Span {
    /// The span of `len` bytes from `at`.
    pub const fn new(at: u64, len: u64) -> Self {
        Self { at, len }
    }

    /// One past the last byte, or `None` where that overflows.
    pub const fn end(self) -> Option<u64> {
        self.at.checked_add(self.len)
    }

    /// Whether all of the span lies within `size` bytes.
    pub fn fits(self, size: u64) -> bool {
        self.end().is_some_and(|end| end <= size)
    }

    /// Whether both ends are multiples of `unit` bytes, a power of two.
    pub const fn aligned_to(self, unit: u64) -> bool {
        (self.at | self.len) & (unit - 1) == 0
    }
}
