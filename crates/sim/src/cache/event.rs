//! What the last level sees.

/// An access to a line: its number times two, plus one for a write. A read is a miss of the level above, a write a
/// whole line that the level above wrote back. Also the form in which traces are kept, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Event(pub u64);

impl Event {
    /// A read of `line`.
    #[inline]
    pub fn read(line: u64) -> Self {
        Self(line << 1)
    }

    /// A write of `line`.
    #[inline]
    pub fn write(line: u64) -> Self {
        Self(line << 1 | 1)
    }

    /// Its line.
    #[inline]
    pub fn line(self) -> u64 {
        self.0 >> 1
    }

    /// Whether it writes.
    #[inline]
    pub fn is_write(self) -> bool {
        self.0 & 1 != 0
    }
}
