//! Touching a pool's pages before their use, so that no request pays for a page's first touch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use ferrite_memory::{Mapped, Memory, Span};
use ferrite_owner::PoolOwner;
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{ChunkUse, Progress};

use crate::bar::Bar;

/// The number of chunks touched at once. The thread can stop between two such pieces.
const PIECE_CHUNKS: usize = 8;

/// Touches every chunk in use, a piece at a time.
struct Warming {
    mapped: Arc<Mapped>,
    pieces: Vec<Span>,
    next: usize,
}

impl Warming {
    fn new(mapped: Arc<Mapped>, kinds: &[ChunkUse]) -> Self {
        Self { pieces: pieces(kinds), mapped, next: 0 }
    }

    /// Touches the next piece, and returns true if there are more. If a piece cannot be touched now, its users touch
    /// it.
    fn step(&mut self) -> bool {
        let Some(piece) = self.pieces.get(self.next) else { return false };
        self.next += 1;
        !piece.fits(self.mapped.size()) || self.mapped.populate(*piece).is_ok()
    }

    fn progress(&self) -> Progress {
        let bytes = |pieces: &[Span]| pieces.iter().map(|piece| piece.len).sum();
        Progress { done: bytes(&self.pieces[..self.next]), total: bytes(&self.pieces), what: "warming up".into() }
    }
}

/// Returns neighbouring chunks in use, a few per piece.
fn pieces(kinds: &[ChunkUse]) -> Vec<Span> {
    let used: Vec<u64> =
        (0..).zip(kinds).filter(|(_, kind)| **kind != ChunkUse::Free).map(|(chunk, _)| chunk).collect();
    let runs = used.chunk_by(|one, next| one + 1 == *next).flat_map(|run| run.chunks(PIECE_CHUNKS));
    runs.map(|run| Span::new(run[0] * CHUNK, run.len() as u64 * CHUNK)).collect()
}

/// The thread that touches the pages. Dropping it stops the thread.
pub struct Prefault {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prefault {
    /// Starts to touch the pages that the pool of `owner` uses. Returns `None` if the pool is not mapped.
    pub fn start(owner: &PoolOwner) -> Option<Self> {
        let mapped = owner.memory().mapped.clone()?;
        let mut warming = Warming::new(mapped, &owner.pool().space().kinds());
        let stop = Arc::new(AtomicBool::new(false));
        let message = Arc::clone(&stop);
        let work = move || {
            let bar = Bar::new();
            while !message.load(Ordering::Relaxed) && warming.step() && bar.show(&warming.progress()) {}
        };
        // If no thread can start, the users of the pages touch them.
        Some(Self { stop, thread: thread::Builder::new().name("warm".into()).spawn(work).ok() })
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests;
