//! The state of a lease, in one word.
//!
//! ```text
//! bits 0..8 mode: 0 void, 1 read, 2 write   8..64 serial
//! ```

use super::request::Access;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub u64);

const MODE: u64 = 0xff;

impl State {
    /// Nobody's.
    pub const VOID: Self = Self(0);

    /// That of a new lease.
    pub fn new(serial: u64, access: Access) -> Self {
        let mode = match access {
            Access::Read => 1,
            Access::Write | Access::Append => 2,
        };
        Self(serial << 8 | mode)
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
}
