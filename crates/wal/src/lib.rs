//! A write-ahead log: records are durable when they are in persistent memory, and move to files on ordinary storage
//! later, in the background.
//!
//! ```text
//!   append, strict:  reserve, copy, fence ----+          a file for each range of positions
//!   append, relaxed: reserve, copy            |         +----------+----------+------
//!                                             v  step() | segment 0| segment 9| ...
//!   | cut | head: oldest in PM .. durable | copied, not  | -> +----------+----------+------
//!                                           yet durable :tail      up to head, synced
//! ```
//!
//! Databases that write log files of their own keep them in a tag: see the crate `sqlite-log`.
//!
//! A [`Wal`] belongs to the process that opened it: a child of fork must neither use nor drop it.
//!
//! The ring is a log of the pool ([`ferrite_pool::TagLog`]). [`Wal`] adds many writers without a lock between them
//! (`order`), draining to a [`SegmentFolder`], and reading both as one log.

mod drain;
mod error;
mod order;
mod records;
mod segment;
mod wal;

pub use drain::DrainStep;
pub use error::{Error, Result};
pub use records::WalRecords;
pub use segment::{SegmentDirectory, SegmentFolder};
pub use wal::{Durability, Wal, WalSpec, WalStanding};
