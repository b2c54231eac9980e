//! A disk that takes longer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::queue::{RequestNotes, queue_to};
use crate::ready_event::{Alarm, either};
use crate::{Access, Clock, Completion, Disk, Geometry, Op, Queue, Request, Run, Wait, Zeroing};
use ferrite_memory::{Result, Span};

/// What each kind of request takes beyond its own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// A read.
    pub read_ns: u64,
    /// A write, trim or zeroing.
    pub write_ns: u64,
    /// A flush.
    pub flush_ns: u64,
}

impl Delay {
    fn of(&self, op: Op) -> u64 {
        match op {
            Op::Read => self.read_ns,
            Op::Write(_) | Op::Trim(_) | Op::Zero(_) => self.write_ns,
            Op::Flush => self.flush_ns,
        }
    }
}

/// Delays each request after the inner disk has ended it. The delays of queued requests overlap.
pub struct DelayDisk<D> {
    inner: Arc<D>,
    delay: Delay,
    clock: Arc<dyn Clock>,
}

impl<D: Disk> DelayDisk<D> {
    /// `inner`, delayed by `clock`.
    pub fn new(inner: D, delay: Delay, clock: impl Clock + 'static) -> Self {
        Self { inner: Arc::new(inner), delay, clock: Arc::new(clock) }
    }

    fn after<T>(&self, delay_ns: u64, done: T) -> T {
        if delay_ns > 0 {
            self.clock.wait_until_ns(self.clock.now_ns() + delay_ns);
        }
        done
    }
}

impl<D: Disk + 'static> Disk for DelayDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.after(self.delay.read_ns, self.inner.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.after(self.delay.write_ns, self.inner.write(at, from, access))
    }

    fn flush(&self) -> Result<()> {
        self.after(self.delay.flush_ns, self.inner.flush())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.after(self.delay.write_ns, self.inner.trim(span, access))
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.after(self.delay.write_ns, self.inner.write_zeroes(span, how))
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.inner.extents(span)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        let (inner, alarm) = (queue_to(&self.inner)?, Alarm::new()?);
        let descriptor = either(inner.descriptor(), alarm.as_fd())?;
        let (delay, clock) = (self.delay, Arc::clone(&self.clock));
        let (notes, delayed) = Default::default();
        Ok(Some(Box::new(DelayQueue { descriptor, inner, delay, clock, notes, delayed, alarm })))
    }
}

/// The queue of a [`DelayDisk`].
struct DelayQueue {
    /// Readable while the inner queue's descriptor or the alarm is.
    descriptor: OwnedFd,
    inner: Box<dyn Queue>,
    delay: Delay,
    clock: Arc<dyn Clock>,
    notes: RequestNotes<Op>,
    /// Requests that the inner disk has ended, with the time when they complete.
    delayed: Vec<(u64, Completion)>,
    /// Rings when the first of them completes.
    alarm: Alarm,
}

impl DelayQueue {
    fn delay(&mut self, op: Op, completion: Completion) {
        let due_ns = self.clock.now_ns() + self.delay.of(op);
        let at = self.delayed.partition_point(|(other_ns, _)| *other_ns <= due_ns);
        self.delayed.insert(at, (due_ns, completion));
        self.alarm.bring_forward(&*self.clock, Some(due_ns));
    }

    /// Delays what the inner disk ended within `wait`. Returns whether it ended any request.
    fn take_ended(&mut self, wait: Wait) -> Result<bool> {
        let mut ended = Vec::new();
        self.inner.collect(wait, &mut ended)?;
        let any = !ended.is_empty();
        for mut completion in ended {
            let op = self.notes.remove(&mut completion);
            self.delay(op, completion);
        }
        Ok(any)
    }
}

impl Queue for DelayQueue {
    fn submit(&mut self, mut request: Request) -> Option<Completion> {
        let op = request.op;
        self.notes.add(&mut request, op);
        let mut completion = self.inner.submit(request)?;
        self.notes.remove(&mut completion);
        if self.delay.of(op) == 0 {
            return Some(completion);
        }
        self.delay(op, completion);
        None
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let start_ns = self.clock.now_ns();
        let until_ns = match wait {
            Wait::No => start_ns,
            Wait::AtMost(limit) => start_ns.saturating_add(limit.as_nanos().try_into().unwrap_or(u64::MAX)),
            Wait::Forever => u64::MAX,
        };
        loop {
            self.take_ended(Wait::No)?;
            let now_ns = self.clock.now_ns();
            let count = self.delayed.partition_point(|(due_ns, _)| *due_ns <= now_ns);
            completions.extend(self.delayed.drain(..count).map(|(_, completion)| completion));
            let next_ns = self.delayed.first().map(|(due_ns, _)| *due_ns);
            self.alarm.set(&*self.clock, next_ns);
            if count > 0 || now_ns >= until_ns || self.in_flight() == 0 {
                return Ok(count);
            }
            let look_ns = next_ns.unwrap_or(u64::MAX).min(until_ns);
            let limit =
                if look_ns == u64::MAX { Wait::Forever } else { Wait::AtMost(Duration::from_nanos(look_ns - now_ns)) };
            if !self.take_ended(limit)? && look_ns != u64::MAX {
                self.clock.wait_until_ns(look_ns);
            }
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.delayed.len()
    }
}
