//! A client of a mounted file system: it reads and writes the files of another process's file system by itself.
//!
//! A [`FsSession`] is one grant on a file system; a [`FileLease`] is the right to work on one file. Both stand on the
//! words that the owner shares ([`ferrite_fs::share::layout`]) and on the bytes of the pool ([`ferrite_fs::format`]),
//! which are read without a lock ([`ferrite_fs::view`]). The invariants FG1 to FG13 are in `share` of `ferrite-fs`.
//!
//! The tests of `ferrite-fs` build these sources as a module, because they need owner and client in one process. So the
//! modules name each other by `super`.

pub(crate) mod direct_io;
pub(crate) mod known_end;
mod lease;
mod left_sessions;
mod session;
mod thread_slot;

pub use lease::FileLease;
pub use session::{FsSession, Quiet, flush_mount};
pub use thread_slot::end_pins_of_thread;
