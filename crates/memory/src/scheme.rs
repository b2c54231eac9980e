//! How a store reaches the medium.

/// A write scheme (pmbd.txt section IV.C.1).
///
/// A store is in the persistence domain once the storing thread has fenced; with [`Scheme::Writeback`] and
/// [`Scheme::WritebackAll`] only after [`crate::Memory::barrier`].
///
/// The last two are for comparison with the paper, whose driver sets cache modes and flushes whole caches by privileged
/// instructions. User space may not, and imitates them: same order of cost, same durability.
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
    /// Store only; the barrier flushes every line of the memory that its host holds, and so takes longer the larger the
    /// memory is. An imitation of `wbinvd`, whose time depends on the caches instead, and which also evicts what is not
    /// the memory's. Once a memory was stored to by it, each of its barriers does so.
    WritebackAll,
    /// Every 8-byte store is flushed and fenced before the next. An imitation of pages mapped write-through, which need
    /// no flush of their own.
    Writethrough,
}

impl Scheme {
    /// Every scheme with its name, in the order help texts show them.
    pub const ALL: [(&'static str, Self); 8] = [
        ("nt", Self::Nt),
        ("flush", Self::Flush),
        ("clwb", Self::Clwb),
        ("clflushopt", Self::Clflushopt),
        ("clflush", Self::Clflush),
        ("writeback", Self::Writeback),
        ("writeback-all", Self::WritebackAll),
        ("writethrough", Self::Writethrough),
    ];

    /// The scheme called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, scheme)| *scheme)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, scheme)| *scheme == self).map_or("?", |(name, _)| name)
    }

    /// Returns true if a fence of the storing thread makes stores by this scheme durable.
    pub fn is_durable_at_fence(self) -> bool {
        !matches!(self, Self::Writeback | Self::WritebackAll)
    }
}
