//! The state of a lease, in one word.
//!
//! ```text
//! bits 0..4 mode   4..8 turn   8..64 serial
//! mode 0 void   1 read   2 write   3 append   4 append, at work   5 append, while the owner has the file
//! ```
//!
//! The holder changes 3 to 4 and back, the owner 3 to 5 and back, each by compare-exchange; so one of them holds the
//! end of the file at a time. Only the owner makes other changes. Each append has another turn than the one before: it
//! shows the owner whether the append has stored a size (`appenders`).

use crate::share::layout::request::LeaseAccess;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseState(pub u64);

/// The rights of the holder of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseMode {
    /// Nothing: the lease is over.
    Void,
    /// Read.
    Read,
    /// Read, and write over what is there.
    Write,
    /// Read, write, and append.
    Append,
    /// The holder is appending.
    AtWork,
    /// The holder may append later; the owner holds the end now.
    Taken,
}

impl LeaseMode {
    /// The mode of a client that may do `access` and is idle.
    pub fn of(access: LeaseAccess) -> Self {
        match access {
            LeaseAccess::Read => Self::Read,
            LeaseAccess::Write => Self::Write,
            LeaseAccess::Append => Self::Append,
        }
    }
}

const MODE: u64 = 0xf;
const TURN_SHIFT: u32 = 4;
const TURNS: u64 = 16;
const SERIAL_SHIFT: u32 = 8;

impl LeaseState {
    /// No client's.
    pub const VOID: Self = Self(0);

    /// Returns the state of a new lease.
    pub fn new(serial: u64, access: LeaseAccess) -> Self {
        Self(serial << SERIAL_SHIFT | LeaseMode::of(access) as u64)
    }

    /// Returns the rights of the holder of the lease with this serial.
    #[inline]
    pub fn mode(self, serial: u64) -> LeaseMode {
        if self.0 >> SERIAL_SHIFT != serial {
            return LeaseMode::Void;
        }
        match self.0 & MODE {
            1 => LeaseMode::Read,
            2 => LeaseMode::Write,
            3 => LeaseMode::Append,
            4 => LeaseMode::AtWork,
            5 => LeaseMode::Taken,
            _ => LeaseMode::Void,
        }
    }

    /// Returns the state with another mode.
    #[inline]
    pub fn to(self, mode: LeaseMode) -> Self {
        Self(self.0 & !MODE | mode as u64)
    }

    /// Which append it is, or is next; another one than that before.
    #[inline]
    pub fn turn(self) -> u64 {
        self.0 >> TURN_SHIFT & (TURNS - 1)
    }

    /// Returns the state after an append that stored a size: the next append has another turn.
    #[inline]
    pub fn finished(self) -> Self {
        let turn = (self.turn() + 1) % TURNS;
        Self(self.0 & !((TURNS - 1) << TURN_SHIFT) | turn << TURN_SHIFT).to(LeaseMode::Append)
    }
}

#[cfg(test)]
mod tests;
