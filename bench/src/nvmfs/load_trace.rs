//! The requests of a load to its files, in their order, from which references are computed.

use std::collections::HashMap;
use std::ops::Range;

use super::page_reference::FlatPage;
use super::tier_plan::{LoadKind, TierLoad};
use crate::records::{APPEND_BYTES, PAGE_BYTES, PageLoad, ServerLoad, ServerVerb};

/// Reads that find out which pages are in memory.
const PROBES: u64 = 2000;
/// Flat pages of a file, used or not.
const FILE_PAGES: u64 = 1 << 32;

/// A request to a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The number of the file.
    pub file: u64,
    /// The work.
    pub verb: TraceVerb,
    /// The first byte.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceVerb {
    /// The range is read.
    Read,
    /// The range is written.
    Write,
    /// The file is made durable.
    Sync,
    /// The file is removed.
    Remove,
}

impl TraceStep {
    fn whole(file: u64, verb: TraceVerb) -> Self {
        Self { file, verb, at: 0, len: FILE_PAGES * PAGE_BYTES }
    }

    /// Returns the pages that the step touches.
    pub fn pages(&self) -> Range<FlatPage> {
        let base = self.file * FILE_PAGES;
        base + self.at / PAGE_BYTES..base + (self.at + self.len).div_ceil(PAGE_BYTES)
    }
}

/// The requests of a load.
pub struct LoadTrace {
    /// Those that make its files.
    pub fill: Vec<TraceStep>,
    /// Those that are measured.
    pub run: Vec<TraceStep>,
    /// Random reads behind them.
    pub probes: Vec<TraceStep>,
}

/// The reads behind a load that find out what is in memory.
pub fn probes(load: &PageLoad) -> PageLoad {
    PageLoad { requests: PROBES.min(load.requests), reads_permille: 1000, sync_every: 0, seed: load.seed + 1, ..*load }
}

impl LoadTrace {
    /// The requests of `load`; `None` if another program makes them.
    pub fn of(load: &TierLoad) -> Option<Self> {
        match load.kind {
            LoadKind::Pages { load, file_bytes } => {
                let make = |file| TraceStep { file, verb: TraceVerb::Write, at: 0, len: file_bytes };
                Some(Self {
                    fill: (0..load.files).map(make).collect(),
                    run: page_steps(&load),
                    probes: page_steps(&probes(&load)),
                })
            }
            LoadKind::Server(load) => {
                let mut sizes = HashMap::new();
                let fill = server_steps(&ServerLoad { operations: 0, sync_every: 0, ..load }, &mut sizes);
                Some(Self { fill, run: server_steps(&load, &mut sizes), probes: Vec::new() })
            }
            LoadKind::Postmark { .. } => None,
        }
    }
}

fn page_steps(load: &PageLoad) -> Vec<TraceStep> {
    let mut steps = Vec::new();
    for (number, request) in (1..).zip(load.requests()) {
        let verb = if request.is_read { TraceVerb::Read } else { TraceVerb::Write };
        steps.push(TraceStep { file: request.file, verb, at: request.page * PAGE_BYTES, len: PAGE_BYTES });
        if load.sync_every > 0 && number % load.sync_every == 0 {
            steps.push(TraceStep::whole(request.file, TraceVerb::Sync));
        }
    }
    steps
}

/// The steps of a file server whose files have `sizes`.
fn server_steps(load: &ServerLoad, sizes: &mut HashMap<u64, u64>) -> Vec<TraceStep> {
    let mut steps = Vec::new();
    for (number, request) in (1..).zip(load.requests()) {
        let file = request.file;
        let size = sizes.entry(file).or_default();
        let (mut is_written, write) = (true, TraceVerb::Write);
        match request.verb {
            ServerVerb::Make(bytes) | ServerVerb::Replace(bytes) => {
                if *size > 0 {
                    steps.push(TraceStep::whole(file, TraceVerb::Remove));
                }
                *size = bytes;
                steps.push(TraceStep { file, verb: write, at: 0, len: bytes });
            }
            ServerVerb::Append if *size < load.grown_bytes() => {
                steps.push(TraceStep { file, verb: write, at: *size, len: APPEND_BYTES });
                *size += APPEND_BYTES;
            }
            ServerVerb::Append => {}
            ServerVerb::Read => {
                steps.push(TraceStep { file, verb: TraceVerb::Read, at: 0, len: *size });
                is_written = false;
            }
            ServerVerb::Stat => is_written = false,
        }
        if is_written && load.sync_every > 0 && number % load.sync_every == 0 {
            steps.push(TraceStep::whole(file, TraceVerb::Sync));
        }
    }
    steps
}

#[cfg(test)]
mod tests;
