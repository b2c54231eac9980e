//! The spans that the scheme `writeback` has stored and no barrier has flushed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Span;
use crate::shard::{Padded, SHARDS, own_shard};

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
        let mut spans = self.shards[own_shard()].0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Calls `flush` for every span, then `fence`, and forgets the spans. Both happen under the shard's lock, so a
    /// second barrier cannot find the shard empty and return before the lines are durable.
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
mod tests;
