//! A queue to a file or block device by io_uring.
//!
//! A request is a series of steps: as many transfers as its bytes need, or one `fallocate`, and a sync if it is a flush
//! or a durable trim. One sync at a time is in the kernel, because the kernel reports a loss to one sync of a description
//! alone. Requests that need a sync wait for the next one, and share it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use ferrite_memory::{Error, Result, planted};

use super::aligned::Aligned;
use super::ring::{EndedStep, Ring, Step, StepBuffer, StepWork};
use super::{BOUNCE_BYTES, FileDisk, is_unsupported};
use crate::ready_event::wait_until_readable;
use crate::{Access, Completion, Disk, Op, Queue, Request, Wait};

/// Requests in flight at a file by a ring of the kernel.
pub(super) struct RingQueue {
    /// Dropped first, after the kernel has ended all steps.
    ring: Ring,
    disk: FileDisk,
    /// The request in each slot of the ring.
    running: Vec<Option<RingRequest>>,
    /// Requests for which the ring had no slot.
    waiting: VecDeque<RingRequest>,
    /// Requests that need a sync that begins later than now.
    unsynced: Vec<RingRequest>,
    /// The requests that the sync in the kernel serves. Empty: no sync is in the kernel.
    syncing: Vec<RingRequest>,
    ended: Vec<Completion>,
    in_flight: usize,
}

struct RingRequest {
    request: Request,
    /// Bytes that the request transfers.
    len: usize,
    /// Bytes transferred so far.
    done: usize,
    /// Whether a zeroing writes zeros, because the file system cannot zero.
    writes_zeros: bool,
}

impl RingRequest {
    fn new(request: Request) -> Self {
        let len = request.touched().len as usize;
        Self { request, len, done: 0, writes_zeros: false }
    }

    fn access(&self) -> Access {
        match self.request.op {
            Op::Read | Op::Flush => Access::Cached,
            Op::Write(access) | Op::Trim(access) => access,
            Op::Zero(how) => how.access,
        }
    }

    fn has_transfers(&self) -> bool {
        matches!(self.request.op, Op::Read | Op::Write(_)) || self.writes_zeros
    }

    /// Returns the next transfer. A buffer at an address that `unit` refuses goes through an aligned one.
    fn transfer(&mut self, unit: Option<usize>) -> Step {
        let work = if self.request.op == Op::Read {
            StepWork::Read
        } else {
            StepWork::Write { fua: self.access() == Access::Fua }
        };
        let at = self.request.span.at + self.done as u64;
        let address = self.request.buffer.as_ptr() as usize + self.done;
        let bounce_unit = unit.filter(|unit| !address.is_multiple_of(*unit));
        if bounce_unit.is_none() && !self.writes_zeros {
            let buffer = StepBuffer::Own(std::mem::take(&mut self.request.buffer));
            // The kernel transfers at most 2 GiB at once.
            return Step { work, at, part: self.done..self.len.min(self.done + (1 << 30)), buffer };
        }
        let len = BOUNCE_BYTES.min(self.len - self.done);
        let mut aligned = Aligned::new(len, bounce_unit.unwrap_or(1));
        if let Op::Write(_) = self.request.op {
            aligned.bytes().copy_from_slice(&self.request.buffer[self.done..][..len]);
        }
        Step { work, at, part: 0..len, buffer: StepBuffer::Bounce(aligned) }
    }

    /// Takes back the buffer of a transfer of `count` bytes.
    fn transferred(&mut self, mut buffer: StepBuffer, count: usize) {
        match buffer {
            StepBuffer::Own(bytes) => self.request.buffer = bytes,
            _ if self.request.op == Op::Read => {
                self.request.buffer[self.done..][..count].copy_from_slice(&buffer.bytes()[..count]);
            }
            _ => {}
        }
        self.done += count;
    }
}

impl RingQueue {
    /// Opens a queue to `disk`.
    ///
    /// # Errors
    /// The kernel refuses io_uring or does not reopen the file.
    pub fn open(disk: FileDisk) -> io::Result<Self> {
        let ring = Ring::new(reopened(&disk)?, reopened(&disk)?)?;
        Ok(Self::with_ring(ring, disk))
    }

    pub(super) fn with_ring(ring: Ring, disk: FileDisk) -> Self {
        let running = (0..super::ring::DEPTH).map(|_| None).collect();
        let (waiting, unsynced, syncing, ended) = Default::default();
        Self { ring, disk, running, waiting, unsynced, syncing, ended, in_flight: 0 }
    }

    /// Returns the result of a request that needs no step, and refuses requests as the disk's own methods do.
    fn at_once(&self, request: &Request) -> Option<Result<()>> {
        let span = request.touched();
        let changes = !matches!(request.op, Op::Read | Op::Flush);
        let checked = if changes { self.disk.check_change(span) } else { self.disk.check(span) };
        if checked.is_err() {
            return Some(checked);
        }
        match request.op {
            Op::Flush if self.disk.geometry.read_only => Some(Ok(())),
            Op::Flush => self.disk.host_sync.ensure_sound().err().map(Err),
            _ if span.len == 0 => Some(Ok(())),
            Op::Trim(_) if !self.disk.geometry.trim => Some(Ok(())),
            // Before Linux 6.12 a ring cannot discard.
            Op::Trim(access) if self.disk.is_device => Some(self.disk.trim(span, access)),
            Op::Zero(how) if how.fast && how.keep_space && self.disk.is_device => {
                Some(self.disk.write_zeroes(span, how))
            }
            _ => None,
        }
    }

    /// Starts the next step of `running`, or keeps it until the ring has a slot.
    fn start(&mut self, mut running: RingRequest) {
        if running.request.op == Op::Flush {
            self.unsynced.push(running);
            return self.start_sync();
        }
        let Some(slot) = self.ring.free_slot() else { return self.waiting.push_back(running) };
        let step = match running.request.op {
            _ if running.has_transfers() => running.transfer(self.disk.direct.map(|units| units.address)),
            Op::Zero(how) if how.keep_space => allocation(libc::FALLOC_FL_ZERO_RANGE, &running.request),
            _ => allocation(libc::FALLOC_FL_PUNCH_HOLE, &running.request),
        };
        self.running[slot] = Some(running);
        self.ring.start(slot, step);
    }

    /// Starts a sync for all requests that wait for one, unless a sync is in the kernel.
    fn start_sync(&mut self) {
        if self.unsynced.is_empty() || !self.syncing.is_empty() {
            return;
        }
        if let Some(slot) = self.ring.free_slot() {
            self.syncing = std::mem::take(&mut self.unsynced);
            self.ring.start(slot, Step { work: StepWork::Sync, at: 0, part: 0..0, buffer: StepBuffer::Empty });
        }
    }

    fn end_sync(&mut self, result: io::Result<usize>) {
        if let Err(why) = result {
            if is_interrupted(&why) {
                self.unsynced.append(&mut self.syncing);
                return self.start_sync();
            }
            self.disk.host_sync.doubt(&why);
            let mut why = Some(why);
            for failed in std::mem::take(&mut self.syncing) {
                let error = why.take().map(|why| Error::io("making the file durable", why));
                let error = error.map_or_else(|| self.disk.host_sync.ensure_sound(), Err);
                self.end(failed, error);
            }
            return;
        }
        for synced in std::mem::take(&mut self.syncing) {
            // A loss that another description reported counts here too.
            let sound = self.disk.host_sync.ensure_sound();
            self.end(synced, sound);
        }
    }

    fn end(&mut self, running: RingRequest, result: Result<()>) {
        if planted!("disk: queue loses a completion") {
            return;
        }
        self.ended.push(running.request.complete(result));
    }

    fn step_ended(&mut self, step: EndedStep) {
        let EndedStep { slot, buffer, result } = step;
        let Some(mut running) = self.running[slot].take() else { return self.end_sync(result) };
        let is_transfer = running.has_transfers();
        let count = if is_transfer { *result.as_ref().unwrap_or(&0) } else { 0 };
        running.transferred(buffer, count);
        match result {
            Err(why) if is_interrupted(&why) => self.start(running),
            Err(why) => self.step_failed(running, why),
            Ok(0) if is_transfer => self.step_failed(running, io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if is_transfer && running.done < running.len => {
                if planted!("disk: short transfer counts as whole") {
                    return self.end(running, Ok(()));
                }
                self.start(running);
            }
            Ok(_) if !is_transfer && running.access() == Access::Fua => {
                self.unsynced.push(running);
                self.start_sync();
            }
            Ok(_) => self.end(running, Ok(())),
        }
    }

    fn step_failed(&mut self, mut running: RingRequest, why: io::Error) {
        let span = running.request.touched();
        let error = match running.request.op {
            Op::Zero(how) if !running.writes_zeros && is_unsupported(&why) => {
                if !how.fast {
                    running.writes_zeros = true;
                    return self.start(running);
                }
                Error::Unsupported("fast zeroes".into())
            }
            Op::Trim(_) if is_unsupported(&why) => return self.end(running, Ok(())),
            Op::Write(access) => self.disk.write_failed(span, access, why),
            Op::Zero(how) if running.writes_zeros => self.disk.write_failed(span, how.access, why),
            Op::Zero(_) => self.disk.failed("zeroing", span, why),
            Op::Trim(_) => self.disk.failed("trimming", span, why),
            Op::Read | Op::Flush => self.disk.failed("reading", span, why),
        };
        self.end(running, Err(error));
    }

    /// Handles the steps that the kernel has ended, and starts those that follow.
    fn advance(&mut self) {
        self.ring.clear();
        self.ring.submit();
        while let Some(step) = self.ring.next_ended() {
            self.step_ended(step);
            self.start_sync();
            if let Some(next) = self.waiting.pop_front() {
                self.start(next);
            }
        }
    }
}

impl Queue for RingQueue {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        if let Some(result) = self.at_once(&request) {
            return Some(request.complete(result));
        }
        self.in_flight += 1;
        let running = RingRequest::new(request);
        if self.waiting.is_empty() {
            self.start(running)
        } else {
            self.waiting.push_back(running)
        }
        None
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let mut wait = if self.in_flight == 0 { Wait::No } else { wait };
        loop {
            self.advance();
            if !self.ended.is_empty() || wait == Wait::No {
                let count = self.ended.len();
                self.in_flight -= count;
                completions.append(&mut self.ended);
                return Ok(count);
            }
            wait_until_readable(self.ring.descriptor(), wait)?;
            wait = if wait == Wait::Forever { wait } else { Wait::No };
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.descriptor()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

fn allocation(mode: i32, request: &Request) -> Step {
    let work = StepWork::Allocate(mode | libc::FALLOC_FL_KEEP_SIZE, request.span.len);
    Step { work, at: request.span.at, part: 0..0, buffer: StepBuffer::Empty }
}

/// A step that the kernel gave up because of a signal or because its thread ended.
fn is_interrupted(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ECANCELED))
}

/// Opens the disk's file again. The kernel reports a loss once to each open description, so no other thread's sync hides
/// a loss from the queue.
fn reopened(disk: &FileDisk) -> io::Result<File> {
    let flags = if disk.direct.is_some() { libc::O_DIRECT } else { 0 };
    let path = format!("/proc/self/fd/{}", disk.file.as_raw_fd());
    OpenOptions::new().read(true).write(!disk.geometry.read_only).custom_flags(flags).open(path)
}
