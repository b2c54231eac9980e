//! The calling thread serves its requests before they return: there is no queue (pmbd.txt IV.A).

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use ferrite_disk::{Op as Asked, Request};
use ferrite_memory::{Result, forward_memory};

use super::*;

/// A memory that counts who touches it.
struct Attended {
    memory: Arc<LyingMemory>,
    caller: ThreadId,
    by_caller: AtomicU64,
    by_others: AtomicU64,
}

impl Attended {
    fn touched(&self) -> &LyingMemory {
        let who = if thread::current().id() == self.caller { &self.by_caller } else { &self.by_others };
        who.fetch_add(1, Ordering::SeqCst);
        &self.memory
    }
}

impl Memory for Attended {
    forward_memory!(self => self.memory; size, survival, fence_is_durable);

    fn load(&self, at: u64, into: &mut [u8]) {
        self.touched().load(at, into);
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.touched().store(at, from, how);
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.touched().zero(span, how);
    }

    fn load_word(&self, at: u64) -> u64 {
        self.touched().load_word(at)
    }

    fn store_word(&self, at: u64, value: u64) {
        self.touched().store_word(at, value);
    }

    fn flush(&self, span: Span) {
        self.touched().flush(span);
    }

    fn fence(&self) {
        self.touched().fence();
    }

    fn barrier(&self) -> Result<()> {
        self.touched().barrier()
    }
}

#[test]
fn a_request_is_done_by_its_caller() {
    for way in ways() {
        let counts = (AtomicU64::new(0), AtomicU64::new(0));
        let (by_caller, by_others) = counts;
        let memory = Arc::new(Attended { memory: fresh(way), caller: thread::current().id(), by_caller, by_others });
        memory.memory.keep_trace(false);
        let disk = open(memory.clone(), way);
        assert!(disk.queue().expect("no error").is_none(), "{way:?}: requests are queued");
        let span = Span::new(0, 2 * BLOCK);
        let submit = |op, buffer: &[u8]| {
            let before = memory.by_caller.load(Ordering::SeqCst);
            let done = Request { token: 7, op, span, buffer: buffer.to_vec() }.execute(&*disk);
            done.result.expect("done");
            // Where a completed write is durable a flush has nothing to do.
            let is_done_here = memory.by_caller.load(Ordering::SeqCst) > before;
            assert!(is_done_here || matches!(op, Asked::Flush), "{way:?}: {op:?} did nothing here");
            done.buffer
        };
        submit(Asked::Write(Access::Fua), &content(16, 3));
        assert!(submit(Asked::Read, &[0; 8192]) == content(16, 3));
        submit(Asked::Write(Access::Cached), &content(16, 4));
        submit(Asked::Flush, &[]);
        submit(Asked::Zero(Zeroing::default()), &[]);
        submit(Asked::Flush, &[]);
        assert!(read_all(&*disk)[..8192] == [0; 8192]);
        assert_eq!(memory.by_others.load(Ordering::SeqCst), 0, "{way:?}: another thread worked for it");
    }
}
