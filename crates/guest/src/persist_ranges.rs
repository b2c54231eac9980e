//! Para-virtual persistence: a program stores into DRAM, and names the bytes that must last.
//!
//! ```text
//!   program    lock -- store -- unlock -- persist(range)          barrier
//!                       |                     |                      |
//!                     DRAM              waiting ranges -- copied: DRAM -> engine -> durable
//! ```
//!
//! - PV1. When a barrier has returned, each byte that any thread persisted before the barrier began is durable in its
//!   page's truth: with the value that it had at that time, or a later one. So what a program stores behind a barrier is
//!   never durable without what it persisted before.
//! - PV2. A byte that no call persisted is in no truth.
//! - PV3. A range whose barrier failed waits for the next barrier.
//! - PV4. A barrier waits for the ranges that another barrier has begun to copy.
//! - PV5. No byte of a range is copied while a thread has locked a part of that range. A thread that holds a lock waits
//!   for no barrier, so each lock ends.
//! - PV6. No lock of the engine is held while bytes of the program are read: their page may fault, and its answer needs
//!   the engine.
//!
//! Source: "Virtual Persistent Memory", 3.2 (table 1) and 4.4. The paper has a ring and a thread that drains it; here the
//! thread that waits drains, and ranges that meet are one range.

use std::collections::BTreeMap;
use std::mem;
use std::thread::{self, ThreadId};

use ferrite_memory::{Span, planted};
use ferrite_pool::layout::PAGE;
use parking_lot::{Condvar, Mutex};

use crate::guest_engine::GuestEngine;
use crate::{GuestError, RUN_PAGES, Result};

/// The DRAM that a program stores into.
pub(crate) trait ProgramBytes {
    /// Copies bytes out, aligned words whole. Waits while a page faults.
    fn copy_out(&self, at: u64, into: &mut [u8]);

    /// Returns false if the program has certainly not stored to the page of byte `at`.
    fn is_touched(&self, at: u64) -> bool;
}

/// A range that a thread has locked.
struct HeldRange {
    span: Span,
    holder: ThreadId,
}

/// The ranges of one guest that wait for a barrier, and the locks of its threads.
pub(crate) struct PersistRanges {
    size: u64,
    /// Disjoint ranges that do not touch each other: the end of each, by its first byte.
    waiting: Mutex<BTreeMap<u64, u64>>,
    /// Held by the one barrier that copies (PV4), with the bytes that it copied last.
    copying: Mutex<Vec<u8>>,
    held: Mutex<Vec<HeldRange>>,
    /// Signalled when a lock ends.
    released: Condvar,
}

fn end_of(span: Span) -> u64 {
    span.at + span.len
}

fn overlap(one: Span, other: Span) -> bool {
    one.at < end_of(other) && other.at < end_of(one)
}

impl PersistRanges {
    /// Returns the ranges of a guest of `size` bytes: none.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            waiting: Mutex::default(),
            copying: Mutex::default(),
            held: Mutex::default(),
            released: Condvar::new(),
        }
    }

    /// Refuses a `span` that is not within the guest.
    pub fn check(&self, span: Span) -> Result<()> {
        if span.fits(self.size) {
            return Ok(());
        }
        Err(GuestError::Refused(format!(
            "{} bytes from byte {} on are not within the {} bytes of the guest",
            span.len, span.at, self.size
        )))
    }

    /// Adds `span` to the ranges that the next barrier makes durable.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if `span` is not within the guest.
    pub fn persist(&self, span: Span) -> Result<()> {
        self.check(span)?;
        if span.len > 0 {
            self.add(span);
        }
        Ok(())
    }

    /// Adds `span` to the waiting ranges.
    fn add(&self, span: Span) {
        let mut waiting = self.waiting.lock();
        let (mut first, mut end) = (span.at, end_of(span));
        while let Some((at, until)) = waiting.range(..=end).next_back().map(|(at, until)| (*at, *until)) {
            if until < first {
                break;
            }
            waiting.remove(&at);
            (first, end) = (first.min(at), end.max(until));
        }
        waiting.insert(first, end);
    }

    /// Returns the ranges that wait, by address.
    #[cfg(test)]
    pub fn waiting(&self) -> Vec<Span> {
        self.waiting.lock().iter().map(|(at, end)| Span::new(*at, end - at)).collect()
    }

    /// Copies the waiting ranges from `program` to `engine`, and returns when they are durable (PV1).
    ///
    /// # Errors
    /// [`GuestError::Refused`] if this thread holds a lock; the errors of the pool and the disk.
    pub fn barrier(&self, engine: &GuestEngine, program: &dyn ProgramBytes) -> Result<()> {
        let here = thread::current().id();
        if self.held.lock().iter().any(|held| held.holder == here) {
            return Err(GuestError::Refused("a barrier of a thread that holds a lock: unlock first".into()));
        }
        let mut one = (!planted!("guest: a barrier does not wait for another")).then(|| self.copying.lock());
        let mut alone = Vec::new();
        let bytes = one.as_deref_mut().unwrap_or(&mut alone);
        let ranges = mem::take(&mut *self.waiting.lock());
        let spans = ranges.iter().map(|(at, end)| Span::new(*at, end - at));
        let copied = spans.clone().try_for_each(|span| self.copy(span, engine, program, bytes));
        let is_durable = copied.and_then(|()| match planted!("guest: a barrier does not flush") {
            true => Ok(()),
            false => engine.flush(),
        });
        if is_durable.is_err() && !planted!("guest: a failed barrier forgets its ranges") {
            spans.for_each(|span| self.add(span));
        }
        is_durable
    }

    /// Copies `span` by way of `bytes` while no thread has locked a part of it (PV5).
    fn copy(&self, span: Span, engine: &GuestEngine, program: &dyn ProgramBytes, bytes: &mut Vec<u8>) -> Result<()> {
        let _locked = (!planted!("guest: locked bytes are copied")).then(|| self.lock(span)).transpose()?;
        let mut at = span.at;
        while at < end_of(span) {
            let first = at / PAGE;
            let end_of_page = |page: u64| ((page + 1) * PAGE).min(end_of(span));
            let run = (first..first + RUN_PAGES)
                .take_while(|page| page * PAGE < end_of(span) && program.is_touched(page * PAGE))
                .last();
            let Some(last) = run else {
                at = end_of_page(first);
                continue;
            };
            let (mut from, mut end) = (at, end_of_page(last));
            if planted!("guest: whole pages are copied") {
                (from, end) = (first * PAGE, (last + 1) * PAGE);
            }
            bytes.resize((end - from) as usize, 0);
            program.copy_out(from, bytes);
            engine.write(from, bytes)?;
            at = end;
        }
        Ok(())
    }

    /// Locks `span` for this thread: waits while another thread has a lock of a part of it, or a barrier copies it.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if `span` is not within the guest, or if this thread has locked a part of it.
    pub fn lock(&self, span: Span) -> Result<RangeLock<'_>> {
        self.check(span)?;
        let holder = thread::current().id();
        let mut held = self.held.lock();
        while let Some(other) = held.iter().find(|held| overlap(held.span, span)) {
            if other.holder == holder {
                return Err(GuestError::Refused("this thread has locked some of these bytes already".into()));
            }
            self.released.wait(&mut held);
        }
        held.push(HeldRange { span, holder });
        Ok(RangeLock { ranges: self, span })
    }

    /// Ends this thread's lock of `span`.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if this thread has no lock of just these bytes.
    pub fn unlock(&self, span: Span) -> Result<()> {
        let holder = thread::current().id();
        let mut held = self.held.lock();
        let own = held.iter().position(|held| held.span == span && held.holder == holder);
        let own = own.ok_or_else(|| GuestError::Refused("this thread has not locked these bytes".into()))?;
        held.swap_remove(own);
        self.released.notify_all();
        Ok(())
    }
}

/// A lock that ends when this is dropped.
pub(crate) struct RangeLock<'ranges> {
    ranges: &'ranges PersistRanges,
    span: Span,
}

impl RangeLock<'_> {
    /// Keeps the lock until [`PersistRanges::unlock`].
    pub fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for RangeLock<'_> {
    fn drop(&mut self) {
        self.ranges.unlock(self.span).expect("locked by this thread");
    }
}
