//! Memory and disks that lie, to prove commit protocols.
//!
//! A crash is an input. [`LyingMemory`] is a [`ferrite_memory::Memory`] that records what a protocol does to it;
//! [`explore`] then makes every image that a power failure at any instant may leave, as the rules M1-M4 of the waist
//! allow, and hands each to a checker with the operations acknowledged by then:
//!
//! ```
//! use ferrite_crash::{LyingMemory, Model, Options, explore};
//! use ferrite_memory::{Memory, Scheme, Span};
//!
//! let memory = LyingMemory::new(256, Model::MAPPED);
//! for version in 1..=3 {
//!     memory.store(64 + version % 2 * 64, &[version as u8; 64], Scheme::Nt);
//!     memory.settle()?; // without this line the checker below meets a word that points at half a record
//!     memory.store_word(0, version);
//!     memory.persist(Span::new(0, 8))?;
//!     memory.mark(version); // acknowledged: from here on a crash must not lose it
//! }
//! let report = explore(&memory, &Options::default(), |crash| {
//!     let version = crash.load_word(0);
//!     let mut record = [0; 64];
//!     crash.load(64 + version % 2 * 64, &mut record);
//!     let whole = version == 0 || record == [version as u8; 64];
//!     if whole && version >= crash.last_mark().unwrap_or(0) { Ok(()) } else { Err(format!("{version}: {record:?}")) }
//! });
//! report.assert_clean().assert_exhaustive();
//! # Ok::<(), ferrite_memory::Error>(())
//! ```
//!
//! To prove a real service, run it on an `Arc<LyingMemory>`, [`LyingMemory::mark`] what it acknowledges, and let the
//! checker open [`Crash::memory`] by the service's own recovery. That memory records too: explore it inside the
//! checker, and a crash within recovery is a crash like any other.
//!
//! What to choose:
//!
//! - [`Model::MAPPED`] and [`Model::FILE`]: a protocol for both must hold on both; `Model::ALL` lists them.
//! - A point with at most [`Options::images_per_point_max`] images is explored exhaustively, a larger one by seed.
//!   [`Report::assert_exhaustive`] says which it was. Keep the unproven part small: format the memory first, then
//!   [`LyingMemory::forget_trace`].
//! - A failure panics with seed, point and variant; put them in [`Options::only`] to see that image alone.
//! - [`LyingMemory::crash`] leaves one image by seed, for long runs of a whole service.
//! - [`LyingMemory::fail_nth`] and [`LyingMemory::calls`] make a sweep: fail each fallible call once.
//! - [`LyingMemory::as_thread`] lets one real thread play several; [`interleave`] runs real threads one at a time, in
//!   an order that follows from a seed.
//! - [`LyingDisk`] does for [`ferrite_disk::Disk`] what rules D1-D5 leave open: it loses its cache, tears at the
//!   atomic unit, fails the n-th request, completes late and out of order.
//!
//! What the model allows beyond M1-M4 is listed as CP1-CP10 in the module `possible`: always more images than a
//! real machine leaves, never fewer.

mod asked;
mod crash;
mod disk;
mod event;
mod explore;
mod interleave;
mod line;
mod memory;
mod pages;
mod possible;
mod recorded;
mod report;
mod sample;
mod seed;
mod sites;
mod thread;

pub use asked::{options, rounds, seed};
pub use crash::{Crash, Place};
pub use disk::LyingDisk;
pub use explore::{Options, Points, explore};
pub use interleave::{Job, interleave};
pub use memory::LyingMemory;
pub use possible::Model;
pub use report::{Failure, Report};
pub use thread::AsThread;
