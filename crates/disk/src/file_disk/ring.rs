//! The kernel's request ring, with the buffers of the requests that are in it.
#![allow(unsafe_code, reason = "the kernel reads and writes the buffers of entries in the ring")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use ferrite_memory::planted;
use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::aligned::Aligned;
use crate::ReadyEvent;

/// The most steps that are in the kernel at once.
pub(super) const DEPTH: u32 = 128;

/// Memory of a step. Moving the value does not move the bytes.
pub(super) enum StepBuffer {
    /// The buffer of the request.
    Own(Vec<u8>),
    /// A buffer at an address that direct I/O takes.
    Bounce(Aligned),
    /// The step has no data.
    Empty,
}

impl StepBuffer {
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Bounce(aligned) => aligned.bytes(),
            Self::Empty => &mut [],
        }
    }
}

/// The work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepWork {
    /// Read into the buffer.
    Read,
    /// Write the buffer.
    Write {
        /// Whether the bytes are durable when the step ends.
        fua: bool,
    },
    /// Make all earlier writes durable.
    Sync,
    /// `fallocate` with this mode.
    Allocate(i32, u64),
}

/// One operation of the kernel.
pub(super) struct Step {
    pub work: StepWork,
    /// Offset in the file.
    pub at: u64,
    /// The part of the buffer.
    pub part: Range<usize>,
    pub buffer: StepBuffer,
}

/// A step that the kernel has ended.
pub(super) struct EndedStep {
    /// Where the step was started.
    pub slot: usize,
    pub buffer: StepBuffer,
    /// Bytes transferred, or the error.
    pub result: io::Result<usize>,
}

/// A ring of the kernel. It owns the buffer of every step until the kernel has ended the step (Q2).
pub(super) struct Ring {
    ring: IoUring,
    /// The files that steps name, which stay open as long as the ring.
    data: File,
    sync: File,
    ready: ReadyEvent,
    /// The buffers of the steps in the kernel.
    slots: Vec<Option<StepBuffer>>,
    in_kernel: usize,
    /// True if the kernel may have signalled `ready` since it was cleared, or will.
    is_armed: bool,
}

impl Ring {
    /// Makes a ring for steps on `data`. Syncs use `sync`, another open description of the same file.
    ///
    /// # Errors
    /// The kernel has no io_uring, refuses it, or lacks an operation.
    pub fn new(data: File, sync: File) -> io::Result<Self> {
        let ring = IoUring::new(DEPTH)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let codes = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Fallocate::CODE];
        if !codes.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let ready = ReadyEvent::new().map_err(io::Error::other)?;
        if !planted!("disk: queue does not signal its descriptor") {
            ring.submitter().register_eventfd(ready.as_fd().as_raw_fd())?;
        }
        let slots = (0..DEPTH).map(|_| None).collect();
        Ok(Self { ring, data, sync, ready, slots, in_kernel: 0, is_armed: false })
    }

    /// Readable after the kernel has ended a step, until [`Self::clear`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Makes the descriptor unreadable until the next step ends (Q5).
    pub fn clear(&mut self) {
        if self.is_armed && !planted!("disk: ring stays readable") {
            self.ready.clear_kernels();
            self.is_armed = self.in_kernel > 0;
        }
        self.ready.clear();
    }

    /// Makes the descriptor readable.
    pub fn signal(&self) {
        self.ready.signal();
    }

    /// Returns a free slot, if fewer than [`DEPTH`] steps are in the kernel.
    pub fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(Option::is_none)
    }

    /// Starts `step` in `slot`, which is free.
    pub fn start(&mut self, slot: usize, mut step: Step) {
        assert!(self.slots[slot].is_none(), "the slot of a new step is free");
        let Step { work, at, part, .. } = &step;
        let (work, at, part) = (*work, *at, part.clone());
        let bytes = &mut step.buffer.bytes()[part];
        let (start, len) = (bytes.as_mut_ptr(), bytes.len() as u32);
        let (data, sync) = (types::Fd(self.data.as_raw_fd()), types::Fd(self.sync.as_raw_fd()));
        let entry: squeue::Entry = match work {
            StepWork::Read => opcode::Read::new(data, start, len).offset(at).build(),
            StepWork::Write { fua } => {
                let flags = if fua { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(data, start, len).offset(at).rw_flags(flags).build()
            }
            StepWork::Sync if planted!("disk: flush of a ring does nothing") => opcode::Nop::new().build(),
            StepWork::Sync => opcode::Fsync::new(sync).flags(types::FsyncFlags::DATASYNC).build(),
            StepWork::Allocate(mode, len) => opcode::Fallocate::new(data, len).offset(at).mode(mode).build(),
        };
        self.slots[slot] = Some(step.buffer);
        self.in_kernel += 1;
        self.is_armed = true;
        // SAFETY: the entry points into the buffer that the slot now owns. The slot gives it up in `next_ended`, after
        // the kernel has ended the step, and `drop` leaks it if the kernel may still use it. The files stay open.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        assert!(pushed.is_ok(), "a ring has an entry for each slot");
        self.submit();
    }

    /// Gives the kernel the steps that it does not have yet. If it refuses them now, the descriptor stays readable, so
    /// that the caller returns and tries again.
    pub fn submit(&mut self) {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.signal(),
            }
        }
    }

    /// Returns a step that the kernel has ended, if any.
    pub fn next_ended(&mut self) -> Option<EndedStep> {
        let entry = self.ring.completion().next()?;
        let slot = entry.user_data() as usize;
        let buffer = self.slots[slot].take().expect("the kernel ends each step once");
        self.in_kernel -= 1;
        let code = entry.result();
        let result = usize::try_from(code).map_err(|_| io::Error::from_raw_os_error(-code));
        Some(EndedStep { slot, buffer, result })
    }
}

impl Drop for Ring {
    /// Waits until the kernel uses no buffer any more.
    fn drop(&mut self) {
        while self.in_kernel > 0 && !planted!("disk: dropped queue does not wait") {
            match self.ring.submit_and_wait(1) {
                Ok(_) => while self.next_ended().is_some() {},
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The kernel may still write to these buffers: they are never freed.
        self.slots.drain(..).flatten().for_each(std::mem::forget);
    }
}
