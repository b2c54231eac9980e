//! A disk that loses as much as its contract allows.
//!
//! It uses everything that rules D1-D5 of `ferrite_disk::Disk` and Q1-Q4 of `ferrite_disk::Queue` leave open:
//!
//! - CL1. A write that was not flushed is in the cache: readers see it, and a crash keeps any subset of its atomic
//!   units. Of several writes to one unit a crash keeps any prefix.
//! - CL2. A flush covers the requests that ended before it was submitted, and no others. A crash keeps any part of the
//!   requests in flight, in any order.
//! - CL3. A write that fails leaves each of its units old or new. A flush that fails makes nothing durable.
//! - CL4. Trimmed bytes read as zeros or as before, by request.
//! - CL5. A disk made by [`LyingDisk::deferring`] completes submitted requests late and in any order. It opens queues,
//!   which complete requests only when their thread collects.

mod lying_queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrite_disk::{Access, Completion, Disk, Geometry, Op, Queue, Request, Zeroing};
use ferrite_memory::{Error, Result, Span};

use crate::disk_write::Write;
use crate::interleave;
use crate::memory::LyingMemory;
use crate::pages::CowPages;
use crate::possible_disk::{DiskEvent, DiskLanding, Ending, PossibleDisk};
use crate::seed::Seed;

use lying_queue::LyingQueue;

/// A [`Disk`] in DRAM whose volatile cache [`LyingDisk::crash`] loses as rules D1-D5 allow. All its choices follow from
/// seeds.
pub struct LyingDisk {
    geometry: Geometry,
    state: Arc<Mutex<LyingDiskState>>,
}

struct LyingDiskState {
    visible: CowPages,
    possible: PossibleDisk,
    /// The memory that records the disk's events too, and the disk's number there.
    recorder: Option<(Arc<LyingMemory>, usize)>,
    submitted: Vec<SubmittedRequest>,
    queues: u64,
    choices: Seed,
    requests: u64,
    failing: FailurePlan,
}

/// A request that has not completed.
struct SubmittedRequest {
    /// The queue that took it; 0 for [`Disk::submit`].
    queue: u64,
    request: Request,
    /// The number of the write in flight, if it changes something.
    begun: Option<u64>,
    /// The number of writes that had ended when it was submitted.
    ended: u64,
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
        Self::from_possible(PossibleDisk::new(geometry, pages), 0)
    }

    /// Makes a disk that holds `bytes`, all durable. Their number is `geometry.size`.
    pub fn from_image(geometry: Geometry, bytes: &[u8]) -> Self {
        assert_eq!(geometry.size, bytes.len() as u64, "the image is not of the disk's size");
        Self::from_possible(PossibleDisk::new(geometry, CowPages::from_bytes(bytes)), 0)
    }

    /// Makes the disk complete submitted requests only when they are collected, in an order that follows from `seed`.
    #[must_use]
    pub fn deferring(self, seed: u64) -> Self {
        {
            let mut state = self.state();
            state.choices = Seed::new(seed);
            state.possible.defers = true;
        }
        self
    }

    /// Makes the disk that has the volatile and the durable bytes of `possible`.
    pub(crate) fn from_possible(possible: PossibleDisk, seed: u64) -> Self {
        let (geometry, visible) = (possible.geometry.clone(), possible.visible());
        let (recorder, submitted, choices, failing) = (None, Vec::new(), Seed::new(seed), FailurePlan::Never);
        let state = LyingDiskState { visible, possible, recorder, submitted, queues: 0, choices, requests: 0, failing };
        Self { geometry, state: Arc::new(Mutex::new(state)) }
    }

    /// Makes the disk that holds `image`, all of it durable, where `before` was.
    pub(crate) fn after_crash(before: &PossibleDisk, image: CowPages, seed: u64) -> Self {
        let mut after = PossibleDisk::new(before.geometry.clone(), image);
        after.defers = before.defers;
        Self::from_possible(after, seed)
    }

    /// Records the disk's events in the trace of `memory` from now on.
    pub(crate) fn record_in(&self, memory: &Arc<LyingMemory>) {
        let mut state = self.state();
        assert!(state.recorder.is_none(), "a disk is in one world");
        state.recorder = Some((memory.clone(), memory.add_disk(state.possible.clone())));
    }

    /// Returns the disk that a power failure now leaves, by `seed`. This disk is not changed.
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.state();
        Self::after_crash(&state.possible, state.possible.landed(DiskLanding::Mixture(seed)), seed)
    }

    /// Returns the bytes as a reader sees them now.
    pub fn snapshot(&self) -> Vec<u8> {
        self.state().visible.to_vec()
    }

    /// Returns how many queues to the disk are open, those too that their threads have left behind.
    pub fn open_queues(&self) -> usize {
        Arc::strong_count(&self.state) - 1
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

    /// Carries out a write, which is in flight already if `begun` is its number.
    fn change(&self, write: &Write, access: Access, begun: Option<u64>) -> Result<()> {
        let span = Span::new(write.at, write.bytes.len() as u64);
        let (mut state, fails) = self.admit(span)?;
        if self.geometry.read_only {
            return Err(Error::ReadOnly);
        }
        let begun = begun.unwrap_or_else(|| state.begin(write));
        if fails {
            state.end(begun, Ending::Dropped);
            state.write_part(write);
            return Err(planted("write", span));
        }
        let durable = access == Access::Fua || !self.geometry.volatile_cache;
        state.end(begun, if durable { Ending::Durable } else { Ending::Cached });
        Ok(())
    }

    fn trim_begun(&self, span: Span, access: Access, begun: Option<u64>) -> Result<()> {
        self.check(span)?;
        if self.geometry.trim && self.state().choices.below(2) == 0 {
            return self.change(&Write::zeros(span), access, begun);
        }
        let (mut state, fails) = self.admit(span)?;
        begun.into_iter().for_each(|begun| state.end(begun, Ending::Dropped));
        if fails { Err(planted("trim", span)) } else { Ok(()) }
    }

    /// Makes the first `covered` writes that ended durable, or all of them.
    fn flush_covered(&self, covered: Option<u64>) -> Result<()> {
        let (mut state, fails) = self.admit(Span::new(0, 0))?;
        if fails {
            return Err(planted("flush", Span::new(0, self.geometry.size)));
        }
        let covered = covered.unwrap_or_else(|| state.possible.ended());
        state.event(DiskEvent::Flush { covered }, &[]);
        Ok(())
    }

    /// Takes `request`, or completes it at once.
    fn take(&self, request: Request, queue: u64) -> Option<Completion> {
        let is_refused = self.check(request.span).is_err() || self.geometry.read_only;
        let mut state = self.state();
        let ended = state.possible.ended();
        if is_refused || !state.possible.defers {
            drop(state);
            return Some(self.execute(SubmittedRequest { queue, request, begun: None, ended }));
        }
        drop(state);
        interleave::turn();
        state = self.state();
        let write = match request.op {
            Op::Write(_) => Some(Write { at: request.span.at, bytes: request.buffer.clone() }),
            Op::Trim(_) if !self.geometry.trim => None,
            Op::Zero(_) | Op::Trim(_) => Some(Write::zeros(request.span)),
            Op::Read | Op::Flush => None,
        };
        let begun = write.map(|write| state.begin(&write));
        let ended = state.possible.ended();
        state.submitted.push(SubmittedRequest { queue, request, begun, ended });
        None
    }

    /// Completes some of the requests of `queue`, in any order: at least `least`, if it has so many.
    fn complete(&self, queue: u64, least: u64) -> Vec<Completion> {
        interleave::turn();
        let mut done = Vec::new();
        {
            let state = &mut *self.state();
            let waiting = state.in_flight(queue);
            let least = least.min(waiting);
            for left in (1..=waiting).rev().take((least + state.choices.below(waiting - least + 1)) as usize) {
                let chosen = state.choices.below(left);
                let of_queue = |(_, submitted): &(usize, &SubmittedRequest)| submitted.queue == queue;
                let place = state.submitted.iter().enumerate().filter(of_queue).nth(chosen as usize);
                let place = place.expect("so many wait").0;
                done.push(state.submitted.swap_remove(place));
            }
        }
        done.into_iter().map(|submitted| self.execute(submitted)).collect()
    }

    fn execute(&self, submitted: SubmittedRequest) -> Completion {
        let SubmittedRequest { mut request, begun, ended, .. } = submitted;
        let Request { op, span, .. } = request;
        let result = match op {
            Op::Read => self.read(span.at, &mut request.buffer),
            Op::Write(access) => {
                let write = Write { at: span.at, bytes: std::mem::take(&mut request.buffer) };
                let result = self.change(&write, access, begun);
                request.buffer = write.bytes;
                result
            }
            Op::Flush => self.flush_covered(Some(ended)),
            Op::Trim(access) => self.trim_begun(span, access, begun),
            Op::Zero(how) => self.change(&Write::zeros(span), how.access, begun),
        };
        Completion { token: request.token, buffer: request.buffer, result }
    }
}

impl LyingDiskState {
    fn event(&mut self, event: DiskEvent, bytes: &[u8]) {
        self.possible.apply(event, bytes);
        if let Some((memory, disk)) = &self.recorder {
            memory.record_disk(*disk, event, bytes);
        }
    }

    /// Puts `write` in flight. Returns its number.
    fn begin(&mut self, write: &Write) -> u64 {
        let number = self.possible.begun();
        self.event(DiskEvent::Begin(Span::new(write.at, write.bytes.len() as u64)), &write.bytes);
        number
    }

    fn end(&mut self, number: u64, ending: Ending) {
        if ending != Ending::Dropped {
            let write = self.possible.in_flight(number).expect("it was begun");
            self.visible.write(write.at, &write.bytes);
        }
        self.event(DiskEvent::End { number, ending }, &[]);
    }

    /// Applies a write that failed (CL3).
    fn write_part(&mut self, write: &Write) {
        for unit in write.units(self.possible.geometry.atomic_bytes) {
            if self.choices.below(2) == 0 {
                let number = self.begin(&write.part(unit));
                self.end(number, Ending::Cached);
            }
        }
    }

    /// Returns the number of requests of `queue` that have not completed.
    fn in_flight(&self, queue: u64) -> u64 {
        self.submitted.iter().filter(|submitted| submitted.queue == queue).count() as u64
    }
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
        self.change(&Write { at, bytes: from.to_vec() }, access, None)
    }

    fn flush(&self) -> Result<()> {
        self.flush_covered(None)
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.trim_begun(span, access, None)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.check(span)?;
        self.change(&Write::zeros(span), how.access, None)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        let mut state = self.state();
        if !state.possible.defers {
            return Ok(None);
        }
        state.queues += 1;
        let disk = Self { geometry: self.geometry.clone(), state: Arc::clone(&self.state) };
        Ok(Some(Box::new(LyingQueue::new(disk, state.queues)?)))
    }
}
