//! A device's write cache.

/// Where a write is when it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// On the medium.
    Off,
    /// In a cache of so many bytes that power loss empties: a flush waits for it to be written.
    Volatile(u64),
    /// In a cache of so many bytes that is saved on power loss: a flush has nothing to do.
    Protected(u64),
}

impl WriteCache {
    /// Bytes it holds.
    pub fn capacity_bytes(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Volatile(bytes) | Self::Protected(bytes) => bytes,
        }
    }

    /// Whether a completed write may be lost before a flush.
    pub fn is_volatile(self) -> bool {
        matches!(self, Self::Volatile(_))
    }
}
