//! Members that are opened, read and stamped within a time limit, so that a device that hangs holds no caller for ever.
//!
//! - LO1. A call of [`LimitedOpener::open`] and each request of the disk that it returns end within the limit, except
//!   requests by a queue, whose owner has deadlines of its own.
//! - LO2. While a device has not ended a request that was given up, nothing else is requested of the disk, and its address
//!   is not opened again: a late write must not land in a member that is used again (CA11).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk, Geometry, Op, Queue, Request, Wait, Zeroing};
use ferrite_memory::{Error, Result, Span, Survival, planted};
use parking_lot::Mutex;

use crate::cache::MemberOpener;
use crate::late_queue::drop_queue;

/// A disk and the queue that its requests take; `None` for a disk that works in its caller's thread and does not hang.
type OpenedDisk = std::result::Result<(Arc<dyn Disk>, Option<Box<dyn Queue>>), String>;

/// Opens members by another opener, in a thread for each.
pub(crate) struct LimitedOpener {
    inner: Arc<dyn MemberOpener>,
    limit: Duration,
    /// Openings that did not end in time: a later call waits for them again.
    openings: Mutex<HashMap<String, Receiver<OpenedDisk>>>,
    late: Arc<LateAddresses>,
}

/// The addresses of disks that have not ended a request that was given up (LO2).
#[derive(Default)]
struct LateAddresses(Mutex<HashSet<String>>);

impl LimitedOpener {
    /// Returns an opener by `inner` that waits at most `limit` for each device.
    pub fn new(inner: Arc<dyn MemberOpener>, limit: Duration) -> Self {
        Self { inner, limit, openings: Mutex::default(), late: Arc::default() }
    }

    fn begin(&self, address: &str) -> std::result::Result<Receiver<OpenedDisk>, String> {
        let (to, from) = channel();
        let (inner, opened) = (Arc::clone(&self.inner), address.to_string());
        let open = move || {
            let disk = inner.open(&opened);
            let with_queue = |disk: Arc<dyn Disk>| {
                let queue = disk.queue().map_err(|error| error.to_string())?;
                Ok((disk, queue))
            };
            // A caller that waits no more finds the result at the next call.
            let _ = to.send(disk.and_then(with_queue));
        };
        let thread = Builder::new().name("cache-open".into()).spawn(open);
        thread.map(|_| from).map_err(|error| format!("starting a thread: {error}"))
    }
}

impl MemberOpener for LimitedOpener {
    fn open(&self, address: &str) -> std::result::Result<Arc<dyn Disk>, String> {
        if planted!("cache: a member is opened without a limit") {
            return self.inner.open(address);
        }
        if self.late.0.lock().contains(address) {
            return Err(format!("{address} has not ended a request that was given up"));
        }
        let known = self.openings.lock().remove(address);
        let opening = known.map_or_else(|| self.begin(address), Ok)?;
        match opening.recv_timeout(self.limit) {
            Ok(opened) => Ok(match opened? {
                (disk, None) => disk,
                (inner, Some(queue)) => Arc::new(LimitedDisk {
                    inner,
                    queue: Mutex::new(Some(queue)),
                    limit: self.limit,
                    address: address.into(),
                    late: Arc::clone(&self.late),
                }),
            }),
            Err(RecvTimeoutError::Timeout) => {
                self.openings.lock().insert(address.into(), opening);
                Err(format!("{address} cannot be opened within {} ms", self.limit.as_millis()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(format!("opening {address} ended early")),
        }
    }

    fn survival(&self, address: &str) -> Survival {
        self.inner.survival(address)
    }
}

/// A disk whose requests end within a limit.
struct LimitedDisk {
    inner: Arc<dyn Disk>,
    /// `None` once it was dropped.
    queue: Mutex<Option<Box<dyn Queue>>>,
    limit: Duration,
    address: String,
    late: Arc<LateAddresses>,
}

impl LimitedDisk {
    fn run(&self, op: Op, span: Span, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let not_reached = |why: String| Error::io(self.address.clone(), std::io::Error::other(why));
        let mut queue = self.queue.lock();
        let queue = queue.as_mut().expect("only the drop takes it");
        let mut ended = Vec::new();
        queue.collect(Wait::No, &mut ended)?;
        ended.clear();
        if queue.in_flight() > 0 {
            return Err(not_reached("it has not ended a request that was given up".into()));
        }
        self.late.0.lock().remove(&self.address);
        ended.extend(queue.submit(Request { token: 0, op, span, buffer }));
        // A queue may return early: what ended was no request of ours, or the kernel had another reason.
        let begun = Instant::now();
        while ended.is_empty()
            && let Some(left) = self.limit.checked_sub(begun.elapsed())
        {
            queue.collect(Wait::AtMost(left), &mut ended)?;
        }
        match ended.pop() {
            Some(completion) => completion.result.map(|()| completion.buffer),
            None => {
                self.late.0.lock().insert(self.address.clone());
                Err(not_reached(format!("it did not answer within {} ms", self.limit.as_millis())))
            }
        }
    }
}

impl Drop for LimitedDisk {
    fn drop(&mut self) {
        let (late, address) = (Arc::clone(&self.late), self.address.clone());
        if let Some(queue) = self.queue.get_mut().take() {
            drop_queue(queue, move || _ = late.0.lock().remove(&address));
        }
    }
}

impl Disk for LimitedDisk {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let bytes = self.run(Op::Read, Span::new(at, into.len() as u64), vec![0; into.len()])?;
        into.copy_from_slice(&bytes);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.run(Op::Write(access), Span::new(at, from.len() as u64), from.to_vec()).map(drop)
    }

    fn flush(&self) -> Result<()> {
        self.run(Op::Flush, Span::new(0, 0), Vec::new()).map(drop)
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.run(Op::Trim(access), span, Vec::new()).map(drop)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.run(Op::Zero(how), span, Vec::new()).map(drop)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        self.inner.queue()
    }
}

#[cfg(test)]
mod tests;
