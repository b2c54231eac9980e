//! The state of a lease, in one word.
//!
//! ```text
//! bits 0..8 mode   8..64 serial
//! mode 0 void   1 read   2 write   3 append   4 append, at work   5 append, while the owner has the file
//! ```
//!
//! The holder changes 3 to 4 and back, the owner 3 to 5 and back, each by compare-exchange; so one of them has the end
//! of the file at a time. Everything else is the owner's to say.

use super::request::Access;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub u64);

const MODE: u64 = 0xff;
const APPEND: u64 = 3;
const AT_WORK: u64 = 4;
const TAKEN: u64 = 5;

impl State {
    /// Nobody's.
    pub const VOID: Self = Self(0);

    /// That of a new lease.
    pub fn new(serial: u64, access: Access) -> Self {
        let mode = match access {
            Access::Read => 1,
            Access::Write => 2,
            Access::Append => APPEND,
        };
        Self(serial << 8 | mode)
    }

    /// Its holder may append, and does not.
    pub fn appending(serial: u64) -> Self {
        Self(serial << 8 | APPEND)
    }

    /// Its holder appends now.
    pub fn at_work(serial: u64) -> Self {
        Self(serial << 8 | AT_WORK)
    }

    /// The owner has the file.
    pub fn taken(serial: u64) -> Self {
        Self(serial << 8 | TAKEN)
    }

    /// Whether the holder of the lease with this serial may read.
    #[inline]
    pub fn lets_read(self, serial: u64) -> bool {
        self.0 >> 8 == serial && self.0 & MODE > 0
    }

    /// Whether it may write over what is there.
    #[inline]
    pub fn lets_write(self, serial: u64) -> bool {
        self.0 >> 8 == serial && self.0 & MODE > 1
    }

    /// Whether it may append, as soon as nobody is at work.
    #[inline]
    pub fn lets_append(self, serial: u64) -> bool {
        self.0 >> 8 == serial && self.0 & MODE >= APPEND
    }
}
