//! The queue of a disk that wraps another.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use ferrite_memory::{Result, Span, planted};

use crate::{Completion, Disk, Op, Queue, Request, Wait};

/// The work of a wrapping disk on each request of a queue to the disk under it.
pub trait QueueLayer: Send {
    /// Called with each request before the disk under it has the request. An error completes the request at once.
    ///
    /// # Errors
    /// The error of the request.
    fn admit(&mut self, request: &Request) -> Result<()> {
        let _ = request;
        Ok(())
    }

    /// Returns the time now by the layer's clock, for [`NotedRequest::begun_ns`]. A layer without a clock returns 0.
    fn now_ns(&self) -> u64 {
        0
    }

    /// Called with each completion, also with those that `admit` refused.
    fn complete(&mut self, request: NotedRequest, completion: &mut Completion) {
        let _ = (request, completion);
    }
}

/// The part of a request that a [`LayeredQueue`] keeps until completion.
#[derive(Clone, Copy, Debug)]
pub struct NotedRequest {
    /// The request's operation.
    pub op: Op,
    /// The bytes of the disk that it touches.
    pub touched: Span,
    /// The time of its submission, as [`QueueLayer::now_ns`].
    pub begun_ns: u64,
}

/// The queue of an inner disk, with the work of a wrapping disk on each request.
pub struct LayeredQueue<L> {
    inner: Box<dyn Queue>,
    layer: L,
    notes: RequestNotes<NotedRequest>,
}

impl<L: QueueLayer + 'static> LayeredQueue<L> {
    /// Opens a queue to `inner` under `layer`. None: `inner` works in its caller's thread.
    ///
    /// # Errors
    /// The errors of [`Disk::queue`].
    pub fn open<D: Disk + ?Sized>(inner: &D, layer: L) -> Result<Option<Box<dyn Queue>>> {
        let queue = inner.queue()?;
        let layered = |inner| -> Box<dyn Queue> { Box::new(Self { inner, layer, notes: RequestNotes::default() }) };
        Ok(queue.map(layered))
    }
}

impl<L: QueueLayer> Queue for LayeredQueue<L> {
    fn submit(&mut self, mut request: Request) -> Option<Completion> {
        let noted = NotedRequest { op: request.op, touched: request.touched(), begun_ns: self.layer.now_ns() };
        if let Err(refused) = self.layer.admit(&request) {
            let mut completion = request.complete(Err(refused));
            self.layer.complete(noted, &mut completion);
            return Some(completion);
        }
        self.notes.add(&mut request, noted);
        let mut completion = self.inner.submit(request)?;
        self.notes.remove(&mut completion);
        self.layer.complete(noted, &mut completion);
        Some(completion)
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        let collected = self.inner.collect(wait, completions);
        for completion in &mut completions[before..] {
            let noted = self.notes.remove(completion);
            if !planted!("disk: layer of a queue is left out") {
                self.layer.complete(noted, completion);
            }
        }
        collected
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.descriptor()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

/// What a wrapping queue remembers of its requests in flight. The inner queue sees tokens of its own, because callers
/// may use a token twice.
pub(crate) struct RequestNotes<T> {
    next: u64,
    notes: HashMap<u64, (u64, T)>,
}

impl<T> Default for RequestNotes<T> {
    fn default() -> Self {
        Self { next: 0, notes: HashMap::new() }
    }
}

impl<T> RequestNotes<T> {
    /// Gives `request` a token of its own and remembers `note` with it.
    pub fn add(&mut self, request: &mut Request, note: T) {
        let token = std::mem::replace(&mut request.token, self.next);
        self.notes.insert(self.next, (token, note));
        self.next += 1;
    }

    /// Gives `completion` its caller's token. Returns the note.
    pub fn remove(&mut self, completion: &mut Completion) -> T {
        let (token, note) = self.notes.remove(&completion.token).expect("a request in flight completes once");
        completion.token = token;
        note
    }
}
