//! Two disks as one (RAID-1): writes go to both, a read goes to the one with fewer reads in flight.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferrite_disk::{Access, Completion, Disk, Geometry, Op, Queue, Request, Wait};
use ferrite_memory::{Result, Span};

/// A mirror of two disks of the same size, on a clock that does not pass by itself.
pub struct MirrorDisk {
    legs: Arc<[MirrorLeg; 2]>,
}

struct MirrorLeg {
    disk: Arc<dyn Disk>,
    /// Reads of all queues that are in flight.
    reads: AtomicUsize,
}

impl MirrorDisk {
    /// A mirror of `one` and `other`.
    pub fn new(one: Arc<dyn Disk>, other: Arc<dyn Disk>) -> Self {
        Self { legs: Arc::new([one, other].map(|disk| MirrorLeg { disk, reads: AtomicUsize::new(0) })) }
    }

    fn both(&self, by: impl Fn(&dyn Disk) -> Result<()>) -> Result<()> {
        self.legs.iter().try_for_each(|leg| by(&*leg.disk))
    }
}

/// Returns the leg with fewer reads in flight; of two equal ones the one that `bit` names.
fn shorter(legs: &[MirrorLeg; 2], bit: u64) -> usize {
    let [one, other] = [0, 1].map(|number: usize| legs[number].reads.load(Ordering::Relaxed));
    if one == other { (bit & 1) as usize } else { usize::from(other < one) }
}

impl Disk for MirrorDisk {
    fn geometry(&self) -> Geometry {
        let [one, other] = [0, 1].map(|number: usize| self.legs[number].disk.geometry());
        Geometry { size: one.size.min(other.size), ..one }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.legs[shorter(&self.legs, at >> 12)].disk.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.both(|leg| leg.write(at, from, access))
    }

    fn flush(&self) -> Result<()> {
        self.both(|leg| leg.flush())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.both(|leg| leg.trim(span, access))
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        let [one, other] = [0, 1].map(|number: usize| self.legs[number].disk.queue());
        let (Some(one), Some(other)) = (one?, other?) else { return Ok(None) };
        let (jobs, next, turn) = (Vec::new(), 0, 0);
        Ok(Some(Box::new(MirrorQueue { legs: Arc::clone(&self.legs), queues: [one, other], jobs, next, turn })))
    }
}

/// A request in flight at one leg or at both.
struct MirrorJob {
    number: u64,
    token: u64,
    /// Legs that have not ended it.
    open: usize,
    /// The leg of a read.
    read_at: Option<usize>,
    result: Result<()>,
}

/// A thread's queue to both legs.
struct MirrorQueue {
    legs: Arc<[MirrorLeg; 2]>,
    queues: [Box<dyn Queue>; 2],
    jobs: Vec<MirrorJob>,
    next: u64,
    turn: u64,
}

impl MirrorQueue {
    /// Notes that a leg has ended its part. Returns the completion if it was the last part.
    fn end(&mut self, part: Completion) -> Option<Completion> {
        let index = self.jobs.iter().position(|job| job.number == part.token).expect("a job in flight has its part");
        let job = &mut self.jobs[index];
        job.open -= 1;
        if job.result.is_ok() {
            job.result = part.result;
        }
        if job.open > 0 {
            return None;
        }
        let MirrorJob { token, read_at, result, .. } = self.jobs.swap_remove(index);
        if let Some(leg) = read_at {
            self.legs[leg].reads.fetch_sub(1, Ordering::Relaxed);
        }
        Some(Completion { token, buffer: part.buffer, result })
    }
}

impl Queue for MirrorQueue {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        let (number, token) = (self.next, request.token);
        self.next += 1;
        let Request { op, span, buffer, .. } = request;
        if op == Op::Read {
            self.turn += 1;
            let leg = shorter(&self.legs, self.turn);
            self.legs[leg].reads.fetch_add(1, Ordering::Relaxed);
            self.jobs.push(MirrorJob { number, token, open: 1, read_at: Some(leg), result: Ok(()) });
            let part = self.queues[leg].submit(Request { token: number, op, span, buffer })?;
            return self.end(part);
        }
        self.jobs.push(MirrorJob { number, token, open: 2, read_at: None, result: Ok(()) });
        let copy = Request { token: number, op, span, buffer: buffer.clone() };
        let parts = [self.queues[0].submit(copy), self.queues[1].submit(Request { token: number, op, span, buffer })];
        parts.into_iter().flatten().fold(None, |ended, part| self.end(part).or(ended))
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        let mut parts = Vec::new();
        for queue in &mut self.queues {
            queue.collect(Wait::No, &mut parts)?;
        }
        while parts.is_empty() && wait != Wait::No && self.in_flight() > 0 {
            let busy = usize::from(self.queues[0].in_flight() == 0);
            self.queues[busy].collect(wait, &mut parts)?;
            if wait != Wait::Forever {
                break;
            }
        }
        for part in parts {
            completions.extend(self.end(part));
        }
        Ok(completions.len() - before)
    }

    /// Always readable while requests are in flight, because the clock does not pass by itself.
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.queues[0].descriptor()
    }

    fn in_flight(&self) -> usize {
        self.jobs.len()
    }
}

#[cfg(test)]
mod tests;
