//! Touching a pool's pages ahead of their use, so that no request pays for a page's first touch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use ferrite_medium::{Mapped, Memory, Span};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Kind, Pool};

/// Touches every chunk in use, one at a time.
struct Warming {
    mapped: Arc<Mapped>,
    kinds: Vec<Kind>,
    next: usize,
}

impl Warming {
    /// Touches the next chunk; whether there are more. What cannot be touched now is when it is used.
    fn step(&mut self) -> bool {
        let Some(kind) = self.kinds.get(self.next) else { return false };
        let chunk = Span::new(self.next as u64 * CHUNK, CHUNK);
        self.next += 1;
        *kind == Kind::Free || !chunk.fits(self.mapped.size()) || self.mapped.populate(chunk).is_ok()
    }
}

/// The thread that does it; stopped when dropped.
pub struct Warm {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Warm {
    /// Starts to touch what `pool` uses of `mapped`.
    pub fn start(pool: &Pool, mapped: Arc<Mapped>) -> Self {
        let mut warming = Warming { mapped, kinds: pool.space().kinds(), next: 0 };
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let work = move || while !told.load(Ordering::Relaxed) && warming.step() {};
        // Without a thread for it pages are touched by who uses them.
        Self { stop, thread: thread::Builder::new().name("warm".into()).spawn(work).ok() }
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}
