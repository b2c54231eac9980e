//! A process beside the owner that reads and writes files by itself.

pub(crate) mod direct_io;
pub(crate) mod known_end;
pub(crate) mod lease;
pub(crate) mod left_sessions;
pub(crate) mod session;
pub(crate) mod thread_slot;
