//! A disk that fails as devices do, by a plan that may change while it runs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ferrite_memory::{Result, Span, planted};

use crate::queue::{RequestNotes, queue_to};
use crate::ready_event::{either, wait_until_readable};
use crate::{Access, Completion, Disk, Geometry, Op, Queue, ReadyEvent, Request, Run, Wait, Zeroing};

mod fault_plan;
mod faults;
mod plan_text;
#[cfg(test)]
mod tests;

pub use fault_plan::{FaultAction, FaultChance, FaultCondition, FaultError, FaultOp, FaultPlan, FaultRule};
pub use faults::Faults;
use faults::{FaultVerdict, JudgedRequest};
pub use plan_text::FaultPlanError;

/// A disk whose requests fail, hang or are corrupted as its [`Faults`] say.
pub struct FaultDisk<D> {
    inner: Arc<D>,
    faults: Faults,
}

impl<D: Disk> FaultDisk<D> {
    /// `inner` with the faults of `plan`.
    pub fn new(inner: D, plan: FaultPlan) -> Self {
        Self { inner: Arc::new(inner), faults: Faults::new(plan) }
    }

    /// Returns the handle that changes the plan.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Waits while the plan hangs the request. Returns the span of which the plan corrupts what is read.
    fn admit(&self, op: FaultOp, span: Span) -> Result<Option<Span>> {
        self.faults.wait_to_pass(self.faults.number(op, span))
    }
}

/// Flips a bit in each sector of `bytes`, which were read at `at`, as far as `corrupt` reaches.
fn flip(bytes: &mut [u8], at: u64, corrupt: Span) {
    const SECTOR: u64 = 512;
    let end = (at + bytes.len() as u64).min(corrupt.end().unwrap_or(u64::MAX));
    let mut next = at.max(corrupt.at);
    while next < end {
        bytes[(next - at) as usize] ^= 1 << (next / SECTOR % 8);
        next = (next / SECTOR + 1) * SECTOR;
    }
}

impl<D: Disk + 'static> Disk for FaultDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let corrupt = self.admit(FaultOp::Read, Span::new(at, into.len() as u64))?;
        self.inner.read(at, into)?;
        if let Some(corrupt) = corrupt {
            flip(into, at, corrupt);
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.admit(FaultOp::Write, Span::new(at, from.len() as u64))?;
        self.inner.write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        self.admit(FaultOp::Flush, Span::new(0, 0))?;
        self.inner.flush()
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.admit(FaultOp::Trim, span)?;
        self.inner.trim(span, access)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.admit(FaultOp::Zero, span)?;
        self.inner.write_zeroes(span, how)
    }

    /// A plan judges the request as a read.
    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.admit(FaultOp::Read, span)?;
        self.inner.extents(span)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        let (inner, changed) = (queue_to(&self.inner)?, Arc::new(ReadyEvent::new()?));
        let descriptor = either(inner.descriptor(), changed.as_fd())?;
        self.faults.report_changes_to(&changed);
        let (notes, hung) = Default::default();
        Ok(Some(Box::new(FaultQueue { descriptor, inner, faults: self.faults.clone(), changed, notes, hung })))
    }
}

/// The queue of a [`FaultDisk`]. Requests that hang are in flight, though the inner disk does not have them.
struct FaultQueue {
    /// Readable while the inner queue's descriptor is, or after the plan changed.
    descriptor: OwnedFd,
    inner: Box<dyn Queue>,
    faults: Faults,
    changed: Arc<ReadyEvent>,
    /// The requests at the inner disk, with the span that the plan corrupts.
    notes: RequestNotes<(Span, Option<Span>)>,
    hung: Vec<(JudgedRequest, Request)>,
}

impl FaultQueue {
    /// Gives `request` to the inner disk, or completes it, or keeps it if it hangs.
    fn pass(&mut self, judged: JudgedRequest, mut request: Request) -> Option<Completion> {
        let corrupt = match self.faults.judge(judged) {
            FaultVerdict::Hang if !planted!("disk: queued request does not hang") => {
                self.hung.push((judged, request));
                return None;
            }
            FaultVerdict::Fail(error) => return Some(request.complete(Err(error))),
            FaultVerdict::Corrupt(span) if request.op == Op::Read => Some(span),
            FaultVerdict::Corrupt(_) | FaultVerdict::Hang | FaultVerdict::Pass => None,
        };
        let note = (request.touched(), corrupt);
        self.notes.add(&mut request, note);
        let mut completion = self.inner.submit(request)?;
        self.end(&mut completion);
        Some(completion)
    }

    fn end(&mut self, completion: &mut Completion) {
        let (touched, corrupt) = self.notes.remove(completion);
        if let (Some(corrupt), true) = (corrupt, completion.result.is_ok()) {
            flip(&mut completion.buffer, touched.at, corrupt);
        }
    }

    /// Judges the requests that hang by a plan that has changed.
    fn judge_again(&mut self, completions: &mut Vec<Completion>) {
        self.changed.clear();
        for (judged, request) in std::mem::take(&mut self.hung) {
            completions.extend(self.pass(judged, request));
        }
    }

    fn take_ended(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<()> {
        let before = completions.len();
        let collected = self.inner.collect(wait, completions);
        completions[before..].iter_mut().for_each(|completion| self.end(completion));
        collected.map(drop)
    }
}

impl Queue for FaultQueue {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        let judged = self.faults.number(FaultOp::of(request.op), request.touched());
        self.pass(judged, request)
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        let mut wait = if self.in_flight() == 0 { Wait::No } else { wait };
        loop {
            self.judge_again(completions);
            self.take_ended(Wait::No, completions)?;
            if completions.len() > before || wait == Wait::No {
                return Ok(completions.len() - before);
            }
            if self.hung.is_empty() {
                self.take_ended(wait, completions)?;
            } else {
                wait_until_readable(self.descriptor.as_fd(), wait)?;
                // The clock of a simulated drive may pass only while a caller waits.
                self.take_ended(Wait::AtMost(Duration::from_millis(1)), completions)?;
            }
            wait = if wait == Wait::Forever { wait } else { Wait::No };
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.hung.len()
    }
}
