//! A memory as slow as another medium.

use crate::pace::{Pace, StorePipe, Ticks, Tsc};
use crate::{Memory, Result, Scheme, Span, forward_memory};

#[cfg(test)]
mod tests;

/// Slows the accesses to the memory under it down to a [`Pace`].
///
/// The wait is inside the call, after the copy and before it returns; the guard's window is closed by then. The
/// charges:
///
/// - by relative speed, every call that moves bytes, or waits for some, is charged by its own duration: loads as reads;
///   stores, zeroing, flushes, fences and (if a fence is durable) barriers as writes. Data that a store or a flush
///   leaves on its way to memory is fenced before the duration is measured, because it would arrive during the wait and
///   be counted nowhere;
/// - by absolute speed, every load, store and zeroing is charged, words and holes too, as if no cache helped. Flushes,
///   fences and barriers add nothing: their bytes were charged when they were stored.
///
/// A process that maps a [`Memory::share`]d part by itself is not slowed.
pub struct Paced<M, T = Tsc> {
    inner: M,
    ticks: T,
    read: StorePipe,
    write: StorePipe,
}

impl<M: Memory, T: Ticks> Paced<M, T> {
    /// `inner` at the pace of `pace`, by the counter `ticks`.
    ///
    /// # Errors
    /// As [`Pace::check`].
    pub fn new(inner: M, pace: Pace, ticks: T) -> Result<Self> {
        pace.check()?;
        let pipe = |speed| StorePipe::new(speed, ticks.per_ns());
        Ok(Self { read: pipe(&pace.read), write: pipe(&pace.write), inner, ticks })
    }

    /// The memory under it.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// Does `access`, which moves `bytes`, and waits for what is left of its time.
    #[inline]
    fn paced<R>(&self, pipe: &StorePipe, bytes: usize, access: impl FnOnce() -> R) -> R {
        if pipe.is_open() || bytes == 0 {
            return access();
        }
        let start = self.ticks.now();
        let queued = pipe.queue(start, bytes as u64);
        let done = access();
        let stretched = if pipe.is_relative() { self.stretched(pipe, start) } else { start };
        self.ticks.wait_until(queued.max(stretched));
        done
    }

    /// Does what moves no bytes of its own, and waits where speeds are relative.
    #[inline]
    fn stretch<R>(&self, call: impl FnOnce() -> R) -> R {
        if !self.write.is_relative() {
            return call();
        }
        let start = self.ticks.now();
        let done = call();
        self.ticks.wait_until(self.stretched(&self.write, start));
        done
    }

    /// If durations are measured, waits until the data stored by `how` has arrived.
    #[inline]
    fn drain(&self, how: Scheme) {
        if self.write.is_relative() && how.is_durable_at_fence() {
            self.inner.fence();
        }
    }

    /// When what began at `start` and is done now would be done on the slower medium.
    #[inline]
    fn stretched(&self, pipe: &StorePipe, start: u64) -> u64 {
        let took = self.ticks.now_after_copy().saturating_sub(start).saturating_sub(self.ticks.reading());
        pipe.stretch(start, took)
    }
}

impl<M: Memory, T: Ticks> Memory for Paced<M, T> {
    forward_memory!(self => self.inner; size, survival, fence_is_durable, inherit, reserve, release, share);

    fn load(&self, at: u64, into: &mut [u8]) {
        self.paced(&self.read, into.len(), || self.inner.load(at, into));
    }

    fn load_hole(&self, into: &mut [u8]) {
        self.paced(&self.read, into.len(), || self.inner.load_hole(into));
    }

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.paced(&self.write, from.len(), || {
            self.inner.store(at, from, how);
            self.drain(how);
        });
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.paced(&self.write, span.len as usize, || {
            self.inner.zero(span, how);
            self.drain(how);
        });
    }

    fn load_word(&self, at: u64) -> u64 {
        self.paced(&self.read, 8, || self.inner.load_word(at))
    }

    fn store_word(&self, at: u64, value: u64) {
        self.paced(&self.write, 8, || self.inner.store_word(at, value));
    }

    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        for piece in pieces {
            self.paced(&self.write, piece.1.len(), || self.inner.store_words(std::slice::from_ref(piece)));
        }
    }

    fn flush(&self, span: Span) {
        self.stretch(|| {
            self.inner.flush(span);
            self.drain(Scheme::Flush);
        });
    }

    fn fence(&self) {
        self.stretch(|| self.inner.fence());
    }

    /// A file's barrier takes the time of its host's disk, which is no medium to emulate.
    fn barrier(&self) -> Result<()> {
        if self.inner.fence_is_durable() { self.stretch(|| self.inner.barrier()) } else { self.inner.barrier() }
    }
}
