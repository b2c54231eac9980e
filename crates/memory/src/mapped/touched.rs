//! What the scheme `writeback` stored and no barrier has flushed yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Span;
use crate::shard::{self, Padded, SHARDS};

/// Spans remembered in one shard. A thread that finds its shard full flushes for itself.
const SPANS_PER_SHARD: usize = 1024;

/// Touched spans, by thread.
#[derive(Default)]
pub(crate) struct Touched {
    used: AtomicBool,
    shards: [Padded<Mutex<Vec<Span>>>; SHARDS],
}

impl Touched {
    /// Remembers `span`, stored by this thread. False where there is no room: the caller flushes it and fences.
    pub fn add(&self, span: Span) -> bool {
        let mut spans = self.shards[shard::mine()].0.lock().unwrap_or_else(PoisonError::into_inner);
        self.used.store(true, Ordering::Release);
        if let Some(last) = spans.last_mut()
            && last.end() == Some(span.at)
        {
            last.len += span.len;
            return true;
        }
        if spans.len() == SPANS_PER_SHARD {
            return false;
        }
        spans.push(span);
        true
    }

    /// Gives every span to `flush`, then calls `fence`, and forgets them. Both happen under the shard's lock, so that
    /// a second barrier cannot find the shard empty and return before the first one's lines have settled.
    pub fn drain(&self, flush: impl Fn(Span), fence: impl Fn()) {
        if !self.used.load(Ordering::Acquire) {
            return;
        }
        for shard in &self.shards {
            let mut spans = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !spans.is_empty() {
                spans.iter().copied().for_each(&flush);
                fence();
                spans.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// What was drained, and how often it was fenced.
    fn drained(touched: &Touched) -> (Vec<Span>, u32) {
        let (spans, fences) = (RefCell::new(Vec::new()), Cell::new(0));
        touched.drain(|span| spans.borrow_mut().push(span), || fences.set(fences.get() + 1));
        (spans.into_inner(), fences.get())
    }

    /// M1 for `writeback`: the barrier is given all that was stored and not flushed, once.
    #[test]
    fn everything_touched_is_drained_once() {
        let touched = Touched::default();
        assert_eq!(drained(&touched), (vec![], 0));
        assert!(touched.add(Span::new(0, 64)) && touched.add(Span::new(64, 64)) && touched.add(Span::new(4096, 8)));
        assert_eq!(drained(&touched), (vec![Span::new(0, 128), Span::new(4096, 8)], 1));
        assert_eq!(drained(&touched), (vec![], 0));
    }

    /// It stays bounded: what finds no room is for the storing thread to flush.
    #[test]
    fn a_full_shard_takes_no_more() {
        let touched = Touched::default();
        let taken = (0..5000).filter(|i| touched.add(Span::new(i * 100, 8))).count();
        assert_eq!(taken, SPANS_PER_SHARD);
        assert_eq!(drained(&touched).0.len(), SPANS_PER_SHARD);
        assert!(touched.add(Span::new(0, 8)), "draining makes room");
    }
}
