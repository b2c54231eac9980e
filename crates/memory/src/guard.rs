//! Guards that keep stray writes out of a mapping, and the window that a copy opens in one.
//!
//! - GU1. Outside a window no thread's store reaches the mapping; it faults and changes nothing. Under `private` and
//!   `keys=strict` loads fault too.
//! - GU2. A window is open for the one thread that opened it (`none`, `private`, `keys`) or for the pages it covers
//!   (`pagetable`). It closes when it is dropped, also by a panic.
//! - GU3. Inside a window nothing is called except a copy: no thread is made, no callback runs, no foreign lock is
//!   acquired.
//! - GU4. If the kernel refuses to open or close a window, the process ends. No error could be returned: the copy must
//!   not continue, the pool must not stay open, and a service must not continue half way through a change.
//!
//! No guard stops `process_vm_writev`, `/proc/self/mem`, or another mapping of the same file.

use crate::Result;

mod keys;
mod shield;

pub(crate) use shield::{GuardWindow, OpenLoads, Right, Shield};

/// A write guard (pmbd.txt section IV.B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Every thread may write at any time.
    None,
    /// The pages are made writable for the copy and read-only after it (`mprotect`).
    Pagetable,
    /// The copy goes through a mapping of its own, made for it and undone after it.
    Private,
    /// A protection key denies writes in every thread; the copying thread opens it for itself.
    Keys,
    /// As `Keys`, and reads are denied too.
    KeysStrict,
}

impl Guard {
    /// Every guard with its name, in the order help texts show them.
    pub const ALL: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("pagetable", Self::Pagetable),
        ("private", Self::Private),
        ("keys", Self::Keys),
        ("keys=strict", Self::KeysStrict),
    ];

    /// The guard called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, guard)| *guard)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, guard)| *guard == self).map_or("?", |(name, _)| name)
    }

    /// The cheapest guard that holds stray writes off on this machine: `Keys`, or `None` without protection keys.
    pub fn best() -> Self {
        if Self::Keys.ensure_available().is_ok() { Self::Keys } else { Self::None }
    }

    /// Refuses a guard that this machine cannot give.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`].
    pub fn ensure_available(self) -> Result<()> {
        match self {
            Self::None | Self::Pagetable | Self::Private => Ok(()),
            Self::Keys | Self::KeysStrict => keys::Key::of(self == Self::KeysStrict).map(drop),
        }
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::best()
    }
}
