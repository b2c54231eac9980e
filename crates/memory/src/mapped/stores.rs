//! The flushes and records of a store beside its copy, by which it keeps the promise of its scheme.
#![allow(unsafe_code, reason = "copies into a window, and flushes its lines")]

use super::Mapped;
use crate::guard::GuardWindow;
use crate::{Memory, Scheme, Span, copy};

impl Mapped {
    /// Stores through the cache as `how` asks, into an open window.
    ///
    /// # Safety
    /// The window covers the span and is open; `from` is as long.
    #[inline]
    pub(super) unsafe fn store_cached(&self, window: &GuardWindow<'_>, from: &[u8], how: Scheme) {
        let (to, by) = (window.ptr(), self.cpu.line_flush_of(how));
        // SAFETY: the caller's promise; the slice is readable.
        unsafe {
            if how == Scheme::Writethrough {
                return copy::store_through(to, from.as_ptr(), from.len(), by);
            }
            copy::plain(to, from.as_ptr(), from.len());
            if how.is_durable_at_fence() {
                copy::flush_lines(to, from.len(), by);
            }
        }
    }

    /// Zeroes through the cache as `how` asks, in an open window.
    ///
    /// # Safety
    /// The window covers the `len` bytes and is open.
    pub(super) unsafe fn zero_cached(&self, window: &GuardWindow<'_>, len: usize, how: Scheme) {
        let (to, by) = (window.ptr(), self.cpu.line_flush_of(how));
        // SAFETY: the caller's promise.
        unsafe {
            if how == Scheme::Writethrough {
                return copy::zero_through(to, len, by);
            }
            copy::plain_zero(to, len);
            if how.is_durable_at_fence() {
                copy::flush_lines(to, len, by);
            }
        }
    }

    /// Sends on what non-temporal stores left in the caches, if that matters.
    ///
    /// # Safety
    /// The window covers the `len` bytes and is open.
    #[inline]
    pub(super) unsafe fn flush_stream(&self, window: &GuardWindow<'_>, len: usize) {
        if self.flushes_streams {
            // SAFETY: the caller's promise.
            unsafe { copy::flush_lines(window.ptr(), len, self.cpu.line_flush) };
        }
    }

    /// What `how` asks for after the window is closed: the list of touched spans has a lock, which no window may wait
    /// for (GU3). The barrier that must find untracked lines settled may run on another processor, whose fence drains
    /// only its own: hence the fence here.
    #[inline]
    pub(super) fn track(&self, span: Span, how: Scheme) {
        if how == Scheme::Writeback && !self.touched.add(span) {
            self.flush(span);
            copy::fence();
        }
        if how == Scheme::WritebackAll {
            self.whole.use_for_good();
        }
    }
}
