//! What was served, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::wire::{Command, Request};

/// Requests by kind, in one row per [`Command`].
const KINDS: usize = 8;

/// A snapshot of what a server has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections that are open now.
    pub open_connections: u64,
    /// Connections accepted so far.
    pub accepted_connections: u64,
    /// Connections turned away because there were too many, or by their address.
    pub refused_connections: u64,
    /// What was asked for on all of them.
    pub requests: Requests,
}

/// Requests answered, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Cache hints.
    pub caches: u64,
    /// Zeroings.
    pub write_zeroes: u64,
    /// Questions for the states of a range.
    pub block_statuses: u64,
    /// Requests of no known kind.
    pub unknown: u64,
    /// Requests of any kind that were answered with an error.
    pub failed: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// A connection's own counters: nobody else writes to them, so counting costs no traffic between cores.
#[derive(Debug, Default)]
pub(super) struct Counters {
    kinds: [AtomicU64; KINDS],
    failed: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Counters {
    /// Counts a request that was answered.
    pub fn count(&self, request: &Request, succeeded: bool) {
        add(&self.kinds[row(request.command)], 1);
        match request.command {
            _ if !succeeded => add(&self.failed, 1),
            Command::Read => add(&self.read_bytes, request.span.len),
            Command::Write => add(&self.written_bytes, request.span.len),
            _ => {}
        }
    }

    /// Adds these counters to `sum`.
    pub fn add_to(&self, sum: &mut Requests) {
        let kind = |command| self.kinds[row(command)].load(Relaxed);
        sum.reads += kind(Command::Read);
        sum.writes += kind(Command::Write);
        sum.flushes += kind(Command::Flush);
        sum.trims += kind(Command::Trim);
        sum.caches += kind(Command::Cache);
        sum.write_zeroes += kind(Command::WriteZeroes);
        sum.block_statuses += kind(Command::BlockStatus);
        sum.unknown += kind(Command::Unknown(0));
        sum.failed += self.failed.load(Relaxed);
        sum.read_bytes += self.read_bytes.load(Relaxed);
        sum.written_bytes += self.written_bytes.load(Relaxed);
    }
}

/// One writer: a load and a store are enough, and cheaper than a locked addition.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

fn row(command: Command) -> usize {
    match command {
        Command::Read => 0,
        Command::Write => 1,
        Command::Flush => 2,
        Command::Trim => 3,
        Command::Cache => 4,
        Command::WriteZeroes => 5,
        Command::BlockStatus => 6,
        Command::Disconnect | Command::Unknown(_) => 7,
    }
}
