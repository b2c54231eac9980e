//! A memory that loses as much as its contract allows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrite_memory::{Error, Fletcher, Memory, Result, Scheme, Span, Survival};

use crate::event::{Action, EventTrace, StoreWay};
use crate::interleave;
use crate::pages::CowPages;
use crate::possible::{Model, Possible, dropped_pages};
use crate::possible_disk::{DiskEvent, PossibleDisk};
use crate::sample;
use crate::seed::Seed;
use crate::thread::{AsThread, Thread};

/// A [`Memory`] in DRAM that records every store, flush, fence and barrier with the calling thread, so that
/// [`crate::explore`] can make every image that a crash may leave.
///
/// It is strict if the rules leave room: a barrier makes durable its own thread's stores and flushes, and the stores of
/// `Writeback`. It covers neither unfenced stores of other threads nor words that were never flushed.
pub struct LyingMemory {
    state: Mutex<LyingMemoryState>,
    size: u64,
    model: Model,
}

struct LyingMemoryState {
    visible: CowPages,
    trace: EventTrace,
    recording: bool,
    calls: u64,
    failing_call: Option<u64>,
    poison: Option<String>,
}

impl LyingMemory {
    /// Makes a memory of `size_bytes` durable zeros.
    pub fn new(size_bytes: u64, model: Model) -> Self {
        Self::from_pages(CowPages::zeros(size_bytes), model)
    }

    /// Makes a memory that holds `bytes`, all durable.
    pub fn from_image(bytes: &[u8], model: Model) -> Self {
        Self::from_pages(CowPages::from_bytes(bytes), model)
    }

    pub(crate) fn from_pages(pages: CowPages, model: Model) -> Self {
        Self::from_possible(Possible::new(model, pages))
    }

    /// Makes a memory with the durable and the pending bytes of `possible`.
    pub(crate) fn from_possible(possible: Possible) -> Self {
        let (size, model, visible) = (possible.image.size(), possible.model, possible.visible());
        let trace = EventTrace::new(possible);
        let state = LyingMemoryState { visible, trace, recording: true, calls: 0, failing_call: None, poison: None };
        Self { state: Mutex::new(state), size, model }
    }

    /// Returns the model of its fences.
    pub fn model(&self) -> Model {
        self.model
    }

    /// Returns the bytes as a reader sees them now.
    pub fn snapshot(&self) -> Vec<u8> {
        self.state().visible.to_vec()
    }

    /// Records that `mark` was acknowledged: a checker of a later crash finds it among the marks. Call it after the
    /// operation has returned, as its caller would learn of it.
    pub fn mark(&self, mark: u64) {
        interleave::turn();
        self.state().record(Action::Mark(mark), &[]);
    }

    /// While the returned guard lives, this real thread is logical thread `number` (below 65,536) to every lying
    /// memory. A test can step two state machines in turn as if two threads ran them.
    pub fn as_thread(&self, number: u32) -> AsThread {
        AsThread::new(number)
    }

    fn barrier_of(&self, span: Option<Span>) -> Result<()> {
        interleave::turn();
        let fails = self.fails();
        let mut state = self.state();
        if let Some(reason) = state.poison.clone() {
            return Err(Error::Poisoned(reason));
        }
        if fails {
            state.poison = Some(format!("planted at call {}", state.calls - 1));
        }
        state.record(Action::Barrier { failed: fails, span }, &[]);
        if fails { Err(planted("barrier")) } else { Ok(()) }
    }

    /// Returns the number of fallible calls so far: barriers, reserves and releases.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Makes fallible call `number`, counted from 0 as [`LyingMemory::calls`] does, fail. A failed barrier makes
    /// nothing durable and poisons the memory (M4). A sweep counts a run's calls, and then runs once for each.
    pub fn fail_nth(&self, number: u64) {
        self.state().failing_call = Some(number);
    }

    /// Drops the events so far, so that the exploration starts here. Pending stores stay pending, and marks stay.
    pub fn forget_trace(&self) {
        self.state().trace.fold();
    }

    /// Keeps events for exploring if `keep` is true, as at the start. A long run that only uses [`LyingMemory::crash`]
    /// does not need them.
    pub fn keep_trace(&self, keep: bool) {
        let mut state = self.state();
        state.recording = keep;
        if !keep {
            state.trace.fold();
        }
    }

    /// Returns the memory that a crash now leaves, by `seed`. This memory is not changed.
    pub fn crash(&self, seed: u64) -> Self {
        let landing = sample::mixture(&mut Seed::new(seed));
        Self::from_pages(landing.image(&self.possible()), self.model)
    }

    /// Returns the memory that a new process finds after the user of this one was killed: all visible bytes, not
    /// poisoned.
    pub fn kill(&self) -> Self {
        Self::from_pages(self.state().visible.clone(), self.model)
    }

    /// Returns the images that a crash now may leave.
    pub(crate) fn possible(&self) -> Possible {
        self.state().trace.end()
    }

    /// Adds a disk to the instant from now on, and drops the events so far. Returns the disk's number.
    pub(crate) fn add_disk(&self, disk: PossibleDisk) -> usize {
        let mut state = self.state();
        state.trace.fold();
        state.trace.start.disks.push(disk);
        state.trace.start.disks.len() - 1
    }

    /// Records a step of a request to a disk.
    pub(crate) fn record_disk(&self, disk: usize, event: DiskEvent, bytes: &[u8]) {
        self.state().record(Action::Disk(disk, event), bytes);
    }

    pub(crate) fn trace(&self) -> EventTrace {
        self.state().trace.clone()
    }

    fn state(&self) -> MutexGuard<'_, LyingMemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn within(&self, span: Span) {
        assert!(span.fits(self.size), "{} bytes at {} lie outside a memory of {}", span.len, span.at, self.size);
    }

    fn change(&self, span: Span, change: impl Fn(&mut LyingMemoryState, Span)) {
        self.within(span);
        for part in interleave::parts(span) {
            interleave::turn();
            change(&mut self.state(), part);
        }
    }

    /// Counts a fallible call. Returns true if it is the one to fail.
    fn fails(&self) -> bool {
        let mut state = self.state();
        state.calls += 1;
        state.failing_call == Some(state.calls - 1)
    }
}

impl LyingMemoryState {
    fn record(&mut self, action: Action, bytes: &[u8]) {
        let thread = Thread::current();
        if self.recording {
            self.trace.push(thread, action, bytes);
        } else {
            self.trace.start.apply(thread, action, bytes);
        }
    }
}

impl Memory for LyingMemory {
    fn size(&self) -> u64 {
        self.size
    }

    fn survival(&self) -> Survival {
        Survival::all("a test says what its crash leaves")
    }

    fn fence_is_durable(&self) -> bool {
        self.model.fence_is_durable
    }

    fn load(&self, at: u64, into: &mut [u8]) {
        let span = Span::new(at, into.len() as u64);
        self.within(span);
        for part in interleave::parts(span) {
            interleave::turn();
            let start = (part.at - at) as usize;
            self.state().visible.read(part.at, &mut into[start..start + part.len as usize]);
        }
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.change(Span::new(at, from.len() as u64), |state, part| {
            let bytes = &from[(part.at - at) as usize..][..part.len as usize];
            state.visible.write(part.at, bytes);
            state.record(Action::Store(part, how.into()), bytes);
        });
    }

    fn store_summed(&self, at: u64, from: &[u8]) -> Option<Fletcher> {
        if !(at as usize | from.len()).is_multiple_of(Fletcher::LINE_BYTES) {
            return None;
        }
        self.store(at, from, Scheme::Nt);
        let mut sum = Fletcher::default();
        sum.add(from);
        Some(sum)
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.change(span, |state, part| {
            state.visible.zero(part);
            state.record(Action::Zero(part, how.into()), &[]);
        });
    }

    fn load_word(&self, at: u64) -> u64 {
        assert!(at.is_multiple_of(8), "word at {at} is not aligned to 8 bytes");
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn store_word(&self, at: u64, value: u64) {
        assert!(at.is_multiple_of(8), "word at {at} is not aligned to 8 bytes");
        self.change(Span::new(at, 8), |state, word| {
            state.visible.write(at, &value.to_le_bytes());
            state.record(Action::Store(word, StoreWay::Cached), &value.to_le_bytes());
        });
    }

    /// Each piece is one store, whose words a crash keeps in any order (CP1).
    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        for (at, from) in pieces {
            let span = Span::new(*at, from.len() as u64);
            assert!(span.aligned_to(8), "words at {at}, {} bytes, are not aligned to 8 bytes", from.len());
            self.change(span, |state, part| {
                let bytes = &from[(part.at - at) as usize..][..part.len as usize];
                state.visible.write(part.at, bytes);
                state.record(Action::Store(part, StoreWay::Cached), bytes);
            });
        }
    }

    fn flush(&self, span: Span) {
        self.within(span);
        interleave::turn();
        self.state().record(Action::Flush(span), &[]);
    }

    fn fence(&self) {
        interleave::turn();
        self.state().record(Action::Fence, &[]);
    }

    fn barrier(&self) -> Result<()> {
        self.barrier_of(None)
    }

    fn drain_range(&self, span: Span) -> Result<()> {
        self.within(span);
        if self.fence_is_durable() { self.drain() } else { self.barrier_of(Some(span)) }
    }

    fn reserve(&self, span: Span) -> Result<()> {
        self.within(span);
        interleave::turn();
        if self.fails() {
            return Err(Error::NoSpace(format!("planted: reserve of {} bytes at {}", span.len, span.at)));
        }
        self.state().record(Action::Reserve(span), &[]);
        Ok(())
    }

    fn release(&self, span: Span) -> Result<()> {
        self.within(span);
        interleave::turn();
        if self.fails() {
            return Err(planted("release"));
        }
        let mut state = self.state();
        let salt = state.calls;
        dropped_pages(span, salt).for_each(|page| state.visible.zero(page));
        state.record(Action::Release { span, salt }, &[]);
        Ok(())
    }
}

fn planted(what: &str) -> Error {
    Error::io(format!("planted: {what}"), std::io::Error::other("the medium failed"))
}
