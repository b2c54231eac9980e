//! A disk with queues that ends requests in random order, after random delays, from a seed. A test can hold requests.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Completion, Disk, Geometry, Op, Queue, Request, Run, Wait, Zeroing};
use ferrite_memory::{Error, Result, Span};

/// Longest delay of a request that is not held, in microseconds.
const DELAY_MAX_US: u64 = 300;

/// The disk. Its blocking calls act on `inner` at once.
pub struct QueuedDisk<D> {
    shared: Arc<Shared<D>>,
}

struct Shared<D> {
    inner: D,
    state: Mutex<State>,
    changed: Condvar,
}

/// The state that a test sees.
#[derive(Clone, Debug, Default)]
pub struct State {
    seed: u64,
    /// Requests that begin within this range do not end.
    held: Option<Span>,
    /// Reads of this offset fail.
    bad: Option<u64>,
    /// If true, no request ends in `submit`.
    never_at_once: bool,
    /// Number of open queues.
    pub queues: usize,
    /// Requests that have not ended, and bytes of their buffers.
    pub in_flight: usize,
    pub bytes: usize,
    /// The largest values of both.
    pub most_in_flight: usize,
    pub most_bytes: usize,
    /// Number of flushes that reached the disk.
    pub flushes: usize,
}

impl State {
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn holds(&self, request: &Request) -> bool {
        self.held.is_some_and(|held| request.span.at >= held.at && request.span.at - held.at < held.len)
    }
}

impl<D: Disk + 'static> QueuedDisk<D> {
    /// Creates the disk over `inner`, with random numbers from `seed`.
    pub fn new(inner: D, seed: u64) -> Arc<Self> {
        let state = Mutex::new(State { seed, ..State::default() });
        Arc::new(Self { shared: Arc::new(Shared { inner, state, changed: Condvar::new() }) })
    }

    /// Holds the requests that begin within `span`, until [`QueuedDisk::release`].
    pub fn hold(&self, span: Span) {
        let mut state = self.shared.lock();
        (state.held, state.never_at_once) = (Some(span), true);
    }

    /// Ends the hold.
    pub fn release(&self) {
        self.shared.lock().held = None;
        self.shared.changed.notify_all();
    }

    /// Makes reads of pieces that contain `at` fail.
    pub fn spoil(&self, at: u64) {
        self.shared.lock().bad = Some(at);
    }

    /// Returns the state now.
    pub fn state(&self) -> State {
        self.shared.lock().clone()
    }

    /// Waits until the state is as `wanted` says, and returns it. Fails the test after a minute.
    pub fn wait_for(&self, wanted: impl Fn(&State) -> bool) -> State {
        let (mut state, end) = (self.shared.lock(), Instant::now() + Duration::from_secs(60));
        while !wanted(&state) {
            assert!(Instant::now() < end, "never so: {state:?}");
            state = self.shared.changed.wait_timeout(state, Duration::from_millis(100)).unwrap().0;
        }
        state.clone()
    }
}

impl<D: Disk> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn perform(&self, mut request: Request) -> Completion {
        let Request { token, op, span, .. } = request;
        let bad = self.lock().bad.filter(|bad| op == Op::Read && span.at <= *bad && *bad - span.at < span.len);
        let result = match op {
            Op::Read if bad.is_some() => Err(Error::Damaged(bad.unwrap())),
            Op::Read => self.inner.read(span.at, &mut request.buffer),
            Op::Write(access) => self.inner.write(span.at, &request.buffer, access),
            Op::Flush => self.inner.flush(),
            Op::Trim(access) => self.inner.trim(span, access),
            Op::Zero(how) => self.inner.write_zeroes(span, how),
        };
        self.lock().flushes += usize::from(op == Op::Flush);
        Completion { token, buffer: request.buffer, result }
    }
}

impl<D: Disk + 'static> Disk for QueuedDisk<D> {
    fn geometry(&self) -> Geometry {
        self.shared.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.shared.inner.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.shared.inner.write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        self.shared.inner.flush()
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.shared.inner.trim(span, access)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.shared.inner.write_zeroes(span, how)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.shared.inner.extents(span)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        let (readable, bell) = io::pipe().unwrap();
        let lists = Lists { waiting: Vec::new(), ended: Vec::new(), bell, is_dropped: false };
        let lists = Arc::new(Mutex::new(lists));
        let (shared, theirs) = (Arc::clone(&self.shared), Arc::clone(&lists));
        self.shared.lock().queues += 1;
        let worker = Some(thread::spawn(move || work(&shared, &theirs)));
        Ok(Some(Box::new(RandomQueue { shared: Arc::clone(&self.shared), lists, readable, in_flight: 0, worker })))
    }
}

struct Lists {
    waiting: Vec<Request>,
    ended: Vec<Completion>,
    /// One byte lies in the pipe while `ended` has something.
    bell: PipeWriter,
    is_dropped: bool,
}

struct RandomQueue<D> {
    shared: Arc<Shared<D>>,
    lists: Arc<Mutex<Lists>>,
    readable: PipeReader,
    in_flight: usize,
    worker: Option<JoinHandle<()>>,
}

/// Ends the requests of one queue until it is dropped and has none.
fn work<D: Disk>(shared: &Shared<D>, lists: &Mutex<Lists>) {
    loop {
        let mut state = shared.lock();
        let mut queue = lists.lock().unwrap();
        let free: Vec<usize> = (0..queue.waiting.len()).filter(|at| !state.holds(&queue.waiting[*at])).collect();
        if free.is_empty() {
            if queue.is_dropped && queue.waiting.is_empty() {
                return;
            }
            drop(queue);
            drop(shared.changed.wait_timeout(state, Duration::from_millis(20)).unwrap());
            continue;
        }
        let request = queue.waiting.swap_remove(free[state.random(free.len() as u64) as usize]);
        let delay_us = state.random(DELAY_MAX_US);
        drop(queue);
        drop(state);
        thread::sleep(Duration::from_micros(delay_us));
        let completion = shared.perform(request);
        let mut state = shared.lock();
        let mut queue = lists.lock().unwrap();
        state.in_flight -= 1;
        state.bytes -= completion.buffer.len();
        if queue.ended.is_empty() {
            queue.bell.write_all(&[1]).unwrap();
        }
        queue.ended.push(completion);
        shared.changed.notify_all();
    }
}

impl<D: Disk + 'static> Queue for RandomQueue<D> {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        let mut state = self.shared.lock();
        if !state.never_at_once && state.random(8) == 0 {
            drop(state);
            return Some(self.shared.perform(request));
        }
        state.in_flight += 1;
        state.bytes += request.buffer.len();
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
        state.most_bytes = state.most_bytes.max(state.bytes);
        self.lists.lock().unwrap().waiting.push(request);
        self.in_flight += 1;
        self.shared.changed.notify_all();
        None
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        assert!(!matches!(wait, Wait::AtMost(_)), "the server does not use it");
        let mut state = self.shared.lock();
        loop {
            let mut queue = self.lists.lock().unwrap();
            let count = queue.ended.len();
            if count > 0 {
                self.readable.read_exact(&mut [0]).unwrap();
                completions.append(&mut queue.ended);
            }
            if count > 0 || wait == Wait::No || self.in_flight == 0 {
                self.in_flight -= count;
                return Ok(count);
            }
            drop(queue);
            state = self.shared.changed.wait(state).unwrap();
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl<D> Drop for RandomQueue<D> {
    fn drop(&mut self) {
        self.lists.lock().unwrap().is_dropped = true;
        self.shared.changed.notify_all();
        self.worker.take().unwrap().join().unwrap();
        self.shared.state.lock().unwrap().queues -= 1;
        self.shared.changed.notify_all();
    }
}
