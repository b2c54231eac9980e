//! What keeps stray writes out of a mapping, and the window a copy opens in it.
//!
//! - GU1. Outside a window no thread's store reaches the mapping; it faults and changes nothing. Under `private` and
//!   `keys=strict` the same holds for loads.
//! - GU2. A window is open for the one thread that opened it (`none`, `private`, `keys`) or for the pages it covers
//!   (`pagetable`), and is closed when it is dropped, also by a panic.
//! - GU3. Inside a window nothing is called but a copy: no thread is made, no callback runs, no foreign lock is taken.
//! - GU4. A window that the kernel refuses to open or to close ends the process: there is no error to give it to, and
//!   neither may the copy go on, nor the pool stay open, nor a service go on half way through a change.
//!
//! What no guard holds off: `process_vm_writev`, `/proc/self/mem`, and whoever maps the same file elsewhere.

use crate::Result;

mod keys;
mod shield;

pub(crate) use shield::{OpenLoads, Right, Shield, Window};

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
