//! A database's log: records are durable when they are in persistent memory, and move to files on ordinary storage
//! later, in the background.
//!
//! ```text
//!   append, strict:  reserve, copy, fence ----+                   a file for each stretch of positions
//!   append, relaxed: reserve, copy            |                  +----------+----------+------
//!                                             v     step()       | segment 0| segment 9| ...
//!        | cut | head: oldest in PM .. durable | copied, not  | -> +----------+----------+------
//!                                        yet durable :tail         up to head, synced
//! ```
//!
//! Databases that write log files of their own keep them in a tag: see the crate `sqlite-log`.
//!
//! A [`Wal`] is of the process that opened it: a child of fork neither uses nor drops it.
//!
//! [`Wal`] is it. The ring is a log of the pool ([`ferrite_pool::TagLog`]); what is added here is many writers without a
//! lock between them (`order`), the draining to a [`Folder`], and reading both as one log.

mod drain;
mod error;
mod order;
mod records;
mod segment;
mod wal;

pub use drain::Step;
pub use error::{Error, Result};
pub use records::Records;
pub use segment::{Directory, Folder};
pub use wal::{Durability, Standing, Wal, WalSpec};
