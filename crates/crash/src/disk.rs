//! A disk that loses as much as its contract allows.
//!
//! It uses everything that rules D1-D5 of `ferrite_disk::Disk` leave open:
//!
//! - CL1. A write that was not flushed is in the cache: readers see it, and a crash keeps any subset of its atomic
//!   units. Of several writes to one unit a crash keeps any prefix.
//! - CL2. No flush covers a submitted request that has not completed, and a crash keeps any part of it.
//! - CL3. A write that fails leaves each of its units old or new. A flush that fails makes nothing durable.
//! - CL4. Trimmed bytes read as zeros or as before, by request.
//! - CL5. A disk made by [`LyingDisk::deferring`] completes submitted requests late and in any order.

mod cached;
mod lying_queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrite_disk::{Access, Disk, Geometry, Queue, Request, Zeroing};
use ferrite_memory::{Error, Result, Span};

use crate::interleave;
use crate::pages::CowPages;
use crate::seed::Seed;

use cached::{Losing, Write};
use lying_queue::LyingQueue;

/// A [`Disk`] in DRAM whose volatile cache [`LyingDisk::crash`] loses as rules D1-D5 allow. All its choices follow from
/// seeds.
pub struct LyingDisk {
    geometry: Geometry,
    defers: bool,
    state: Arc<Mutex<LyingDiskState>>,
}

struct LyingDiskState {
    visible: CowPages,
    durable: CowPages,
    /// Completed writes that were not flushed, oldest first.
    cached: Vec<Write>,
    /// The requests in flight, each with the number of its queue.
    submitted: Vec<(u64, Request)>,
    queues: u64,
    choices: Seed,
    requests: u64,
    failing: FailurePlan,
}

#[derive(Clone, Copy)]
enum FailurePlan {
    Never,
    Only(u64),
    From(u64),
}

impl LyingDisk {
    /// Makes a disk of durable zeros with `geometry`.
    pub fn new(geometry: Geometry) -> Self {
        let pages = CowPages::zeros(geometry.size);
        Self::from_pages(geometry, pages, 0)
    }

    /// Makes a disk that holds `bytes`, all durable. Their number is `geometry.size`.
    pub fn from_image(geometry: Geometry, bytes: &[u8]) -> Self {
        assert_eq!(geometry.size, bytes.len() as u64, "the image is not of the disk's size");
        Self::from_pages(geometry, CowPages::from_bytes(bytes), 0)
    }

    /// Gives the disk queues, which complete requests only when they are collected, in an order that follows from `seed`.
    #[must_use]
    pub fn deferring(mut self, seed: u64) -> Self {
        self.defers = true;
        self.state().choices = Seed::new(seed);
        self
    }

    fn from_pages(geometry: Geometry, pages: CowPages, seed: u64) -> Self {
        let (cached, submitted, choices) = (Vec::new(), Vec::new(), Seed::new(seed));
        let (visible, durable) = (pages.clone(), pages);
        let state = LyingDiskState {
            visible,
            durable,
            cached,
            submitted,
            queues: 0,
            choices,
            requests: 0,
            failing: FailurePlan::Never,
        };
        Self { geometry, defers: false, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the disk that a power failure now leaves, by `seed`. This disk is not changed.
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.state();
        let mut seeded = Seed::new(seed);
        let mut image = state.durable.clone();
        let mut losing = Losing::new(&mut seeded, self.geometry.atomic_bytes);
        let in_flight =
            shuffled(state.submitted.iter().filter_map(|(_, request)| Write::of(request)).collect(), &mut seeded);
        for write in state.cached.iter().chain(&in_flight) {
            losing.land(write, &mut image);
        }
        let after = Self::from_pages(self.geometry.clone(), image, seed);
        Self { defers: self.defers, ..after }
    }

    /// Returns the bytes as a reader sees them now.
    pub fn snapshot(&self) -> Vec<u8> {
        self.state().visible.to_vec()
    }

    /// Returns the number of requests so far, failed ones included and those refused by D1 excluded. A test that fails
    /// each request in turn stops at this number.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// Makes request `number`, counted from 0, fail (CL3).
    pub fn fail_nth(&self, number: u64) {
        self.state().failing = FailurePlan::Only(number);
    }

    /// Makes request `number`, counted from 0, and all later ones fail, as in a power failure. A [`LyingDisk::crash`]
    /// after that is a crash in the middle of a run.
    pub fn fail_from(&self, number: u64) {
        self.state().failing = FailurePlan::From(number);
    }

    fn state(&self) -> MutexGuard<'_, LyingDiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and checks rule D1. Returns the state, and true if the request is to fail.
    fn admit(&self, span: Span) -> Result<(MutexGuard<'_, LyingDiskState>, bool)> {
        interleave::turn();
        self.check(span)?;
        let mut state = self.state();
        let number = state.requests;
        state.requests += 1;
        let fails = match state.failing {
            FailurePlan::Never => false,
            FailurePlan::Only(chosen) => number == chosen,
            FailurePlan::From(first) => number >= first,
        };
        Ok((state, fails))
    }

    fn change(&self, write: Write, access: Access) -> Result<()> {
        let span = Span::new(write.at, write.bytes.len() as u64);
        let (mut state, fails) = self.admit(span)?;
        if self.geometry.read_only {
            return Err(Error::ReadOnly);
        }
        if fails {
            state.write_part(&write, self.geometry.atomic_bytes);
            return Err(planted("write", span));
        }
        let durable = access == Access::Fua || !self.geometry.volatile_cache;
        state.write(write, durable);
        Ok(())
    }
}

impl LyingDiskState {
    fn write(&mut self, write: Write, durable: bool) {
        self.visible.write(write.at, &write.bytes);
        if !durable {
            self.cached.push(write);
            return;
        }
        self.durable.write(write.at, &write.bytes);
        self.cached.iter_mut().for_each(|older| older.cover(&write));
    }

    /// Applies a write that failed (CL3).
    fn write_part(&mut self, write: &Write, atomic_bytes: u32) {
        for unit in write.units(atomic_bytes) {
            if self.choices.below(2) == 0 {
                self.write(write.part(unit), false);
            }
        }
    }
}

fn shuffled<T>(mut from: Vec<T>, seed: &mut Seed) -> Vec<T> {
    (1..from.len()).rev().for_each(|at| from.swap(at, seed.below(at as u64 + 1) as usize));
    from
}

fn planted(what: &str, span: Span) -> Error {
    Error::io(
        format!("planted: {what} of {} bytes at {}", span.len, span.at),
        std::io::Error::other("the medium failed"),
    )
}

impl Disk for LyingDisk {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        let (state, fails) = self.admit(span)?;
        if fails {
            return Err(planted("read", span));
        }
        state.visible.read(at, into);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.change(Write { at, bytes: from.to_vec() }, access)
    }

    fn flush(&self) -> Result<()> {
        let (mut state, fails) = self.admit(Span::new(0, 0))?;
        if fails {
            return Err(planted("flush", Span::new(0, self.geometry.size)));
        }
        state.cached.clear();
        state.durable = state.visible.clone();
        Ok(())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.check(span)?;
        if self.geometry.trim && self.state().choices.below(2) == 0 {
            return self.change(Write::zeros(span), access);
        }
        let fails = self.admit(span)?.1;
        if fails { Err(planted("trim", span)) } else { Ok(()) }
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.check(span)?;
        self.change(Write::zeros(span), how.access)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        if !self.defers {
            return Ok(None);
        }
        let shared = Self { geometry: self.geometry.clone(), state: Arc::clone(&self.state), ..*self };
        Ok(Some(Box::new(LyingQueue::open(shared)?)))
    }
}
