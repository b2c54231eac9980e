//! How a store reaches the medium.

/// A write scheme (pmbd.txt section IV.C.1).
///
/// With every scheme but [`Scheme::Writeback`] a store is in the persistence domain once the storing thread
/// has fenced; with `Writeback` only after [`crate::Memory::barrier`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Non-temporal stores, which bypass the cache. Best for bulk data.
    #[default]
    Nt,
    /// Store, then flush the lines with the best instruction this processor has. Best for words.
    Flush,
    /// Store, then `clwb` each line.
    Clwb,
    /// Store, then `clflushopt` each line.
    Clflushopt,
    /// Store, then `clflush` each line.
    Clflush,
    /// Store only; the touched lines are tracked and flushed at the barrier.
    Writeback,
}

impl Scheme {
    /// Every scheme with its name, in the order help texts show them.
    pub const ALL: [(&'static str, Self); 6] = [
        ("nt", Self::Nt),
        ("flush", Self::Flush),
        ("clwb", Self::Clwb),
        ("clflushopt", Self::Clflushopt),
        ("clflush", Self::Clflush),
        ("writeback", Self::Writeback),
    ];

    /// The scheme called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, scheme)| *scheme)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, scheme)| *scheme == self).map_or("?", |(name, _)| name)
    }

    /// Whether a fence by the storing thread is enough for what was stored by this scheme.
    pub fn settles_at_fence(self) -> bool {
        self != Self::Writeback
    }
}
