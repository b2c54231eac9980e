//! Lying memory and disks, to prove commit protocols.
//!
//! A crash is an input. [`LyingMemory`] is a [`ferrite_memory::Memory`] that records the calls of a protocol.
//! [`explore`] then makes every image that a power failure at any instant may leave under the rules M1-M4 of `Memory`,
//! and calls a checker with each image and the operations acknowledged by then:
//!
//! ```
//! use ferrite_crash::{ExploreOptions, LyingMemory, Model, explore};
//! use ferrite_memory::{Memory, Scheme, Span};
//!
//! let memory = LyingMemory::new(256, Model::MAPPED);
//! for version in 1..=3 {
//!     memory.store(64 + version % 2 * 64, &[version as u8; 64], Scheme::Nt);
//!     memory.drain()?; // without this line the checker below meets a word that points at half a record
//!     memory.store_word(0, version);
//!     memory.persist(Span::new(0, 8))?;
//!     memory.mark(version); // acknowledged: from here on a crash must not lose it
//! }
//! let report = explore(&memory, &ExploreOptions::default(), |crash| {
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
//! To prove a real service, run it on an `Arc<LyingMemory>`, call [`LyingMemory::mark`] for each acknowledged
//! operation, and in the checker open [`Crash::memory`] by the service's own recovery. That memory records too:
//! explore it inside the checker to crash the recovery.
//!
//! The choices of a test:
//!
//! - [`Model::MAPPED`] and [`Model::FILE`]: a protocol for both must hold on both; `Model::ALL` lists them.
//! - A point with at most [`ExploreOptions::images_per_point_max`] images is explored exhaustively, a larger one by
//!   seed. [`CrashReport::assert_exhaustive`] panics if a point was sampled. Keep the unproven part small: format the
//!   memory first, then call [`LyingMemory::forget_trace`].
//! - A failure panics with seed, point and variant. Put them in [`ExploreOptions::only`] to see that image alone.
//! - [`LyingMemory::crash`] leaves one image by seed, for long runs of a whole service.
//! - [`LyingMemory::fail_nth`] and [`LyingMemory::calls`] make a sweep that fails each fallible call once.
//! - [`LyingMemory::as_thread`] lets one real thread play several. [`interleave`] runs real threads one at a time, in
//!   an order that follows from a seed.
//! - [`StoreHook`] calls a hook around each store: it shows in which state a service stores.
//! - [`LyingDisk`] uses the freedom that rules D1-D5 leave a [`ferrite_disk::Disk`]: it loses its cache, tears at the
//!   atomic unit, fails the n-th request, and completes late and out of order, by queues too.
//! - [`World`] joins a memory and disks, so that a crash finds all of them at one instant. Each protocol between a
//!   memory and a disk needs it. [`explore`] tries its power failures, [`explore_kills`] the deaths of its process.
//!
//! The model allows more than M1-M4, as CP1-CP10 in the module `possible` list: always more images than a real machine
//! leaves, never fewer.

mod crash;
mod disk;
mod disk_write;
mod environment;
mod event;
mod explore;
mod interleave;
mod line;
mod memory;
mod pages;
mod panic_text;
mod possible;
mod possible_disk;
mod recorded;
mod report;
mod sample;
mod seed;
mod sites;
mod store_hook;
mod thread;
mod world;

pub use crash::{Crash, CrashPlace};
pub use disk::LyingDisk;
pub use environment::{options, rounds, seed};
pub use explore::{ExploreOptions, Points, explore, explore_kills};
pub use interleave::{ThreadJob, interleave};
pub use memory::LyingMemory;
pub use possible::Model;
pub use report::{CrashFailure, CrashReport};
pub use store_hook::{StoreHook, StoreMoment};
pub use thread::AsThread;
pub use world::World;
