//! A disk whose requests take the time of a device that is simulated beside it.
//!
//! ```text
//! request -> inner disk: data, at once, in the caller's thread ------+
//!        \-> model: arrives, waits in its queues, is served, done --+--> completion, at the later of the two
//! ```
//!
//! - SD1. The data is the inner disk's, whatever the model says; a request that the inner disk refuses has failed.
//! - SD2. No request completes before the model has served it, by a blocking call or at a queue.
//! - SD3. The model decides by the arrivals, its profile and its seed alone: the same arrivals at the same times of the
//!   clock complete at the same times.
//! - SD4. No lock is held while waiting, so requests of several threads and queues are in the device at once.
//! - SD5. A request that rule D1 of [`Disk`] refuses, or that changes what is read-only, takes no time.
//! - SD6. No request ends between the time of the clock and the device's next event. A clock that advances from event to
//!   event of all its devices shows each end at its own time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Access, Disk, Geometry, Queue, Run, Zeroing};
use ferrite_memory::{Error, Result, Span, planted};

mod agenda;
mod cache;
mod clock;
mod sim_queue;
#[cfg(test)]
pub(crate) mod tests;

pub use agenda::Agenda;
pub use cache::WriteCache;
pub use clock::{Clock, VirtualClock};
use sim_queue::SimQueue;

/// A request's number in its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SimTicket(pub(crate) u64);

/// The work of a device on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimWork {
    /// Read the span.
    Read,
    /// Write the span.
    Write(Access),
    /// Make all durable that completed before.
    Flush,
    /// Forget the span.
    Trim,
    /// Zero the span without the zeros being sent.
    Zero(Zeroing),
}

/// A request as the device sees it.
#[derive(Clone, Copy, Debug)]
pub struct SimJob {
    /// To be named when it is done.
    pub ticket: SimTicket,
    /// What to do.
    pub work: SimWork,
    /// Where.
    pub span: Span,
    /// When all that it sends has come over the device's link, once the device knows.
    pub sent_ns: u64,
}

/// A device's own time, as events on an [`Agenda`].
pub trait DriveModel: Send {
    /// What happens in it.
    type Event: Send;

    /// `job` arrives now.
    fn arrive(&mut self, job: SimJob, agenda: &mut Agenda<Self::Event>);

    /// An event of its agenda happens now.
    fn happen(&mut self, event: Self::Event, agenda: &mut Agenda<Self::Event>);

    /// Returns the properties of a disk with the inner disk's data and this device's behaviour.
    fn geometry(&self, inner: Geometry) -> Geometry;

    /// Refuses what the device cannot do.
    fn accept(&self, work: SimWork) -> Result<()> {
        let _ = work;
        Ok(())
    }
}

/// A disk with the data of `D` and the timing of `M`.
pub struct SimDisk<D, M: DriveModel> {
    drive: Arc<SimDrive<D, M>>,
}

/// What a disk and its queues share.
struct SimDrive<D, M: DriveModel> {
    inner: D,
    clock: Box<dyn Clock>,
    state: Mutex<SimState<M>>,
}

struct SimState<M: DriveModel> {
    model: M,
    agenda: Agenda<M::Event>,
    tickets: u64,
}

impl<M: DriveModel> SimState<M> {
    /// Lets everything happen that is due by `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        while let Some(event) = self.agenda.next_due(now_ns) {
            self.model.happen(event, &mut self.agenda);
        }
    }
}

impl<D: Disk, M: DriveModel> SimDisk<D, M> {
    /// `inner` with the timing of `model`, waiting by `clock`.
    pub(crate) fn with_model(inner: D, model: M, clock: impl Clock + 'static) -> Self {
        let agenda = Agenda::new(clock.now_ns());
        let state = Mutex::new(SimState { model, agenda, tickets: 0 });
        Self { drive: Arc::new(SimDrive { inner, clock: Box::new(clock), state }) }
    }

    /// The disk under it.
    pub fn inner(&self) -> &D {
        &self.drive.inner
    }

    /// Returns the time of the device's next event: the end of a request that is not collected, or a step of its own
    /// work. Returns `None` if the device is idle. A time that is not later than the clock's is that of a completion
    /// which a queue can collect now (SD6).
    pub fn next_event_ns(&self) -> Option<u64> {
        let mut state = self.drive.lock();
        state.advance(self.drive.clock.now_ns());
        let ends = state.agenda.finished().next().map(|(at_ns, _)| at_ns);
        let ends = ends.filter(|_| !planted!("disk: next event of a drive leaves out known ends"));
        ends.into_iter().chain(state.agenda.next_event_ns()).min()
    }
}

impl<D, M: DriveModel> SimDrive<D, M> {
    fn lock(&self) -> MutexGuard<'_, SimState<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time is read under the lock: the device sees arrivals in the order of the clock (SD3).
    fn begin(&self, work: SimWork, span: Span) -> SimTicket {
        let mut state = self.lock();
        let now_ns = self.clock.now_ns();
        state.advance(now_ns);
        state.tickets += 1;
        let ticket = SimTicket(state.tickets);
        let SimState { model, agenda, .. } = &mut *state;
        model.arrive(SimJob { ticket, work, span, sent_ns: now_ns }, agenda);
        ticket
    }

    fn wait_for(&self, ticket: SimTicket) {
        while let Some(until_ns) = self.look_for(ticket) {
            self.clock.wait_until_ns(until_ns);
        }
    }

    /// When to look again for `ticket`; `None` once it is done.
    fn look_for(&self, ticket: SimTicket) -> Option<u64> {
        let mut state = self.lock();
        let now_ns = self.clock.now_ns();
        state.advance(now_ns);
        match state.agenda.finish_ns(ticket) {
            Some(at) if at <= now_ns => {
                state.agenda.forget(ticket);
                None
            }
            Some(at) => Some(at),
            None => Some(state.agenda.next_event_ns().expect("a device that owes a request is at work")),
        }
    }
}

impl<D: Disk, M: DriveModel> SimDrive<D, M> {
    fn timed<T>(&self, work: SimWork, span: Span, by: impl FnOnce(&D) -> Result<T>) -> Result<T> {
        if planted!("disk: refused request takes its time") {
            self.wait_for(self.begin(work, span));
        }
        self.admit(work, span)?;
        let ticket = self.begin(work, span);
        let done = by(&self.inner);
        self.wait_for(ticket);
        done
    }

    /// SD5.
    fn admit(&self, work: SimWork, span: Span) -> Result<()> {
        self.inner.check(span)?;
        let changes = !matches!(work, SimWork::Read | SimWork::Flush);
        if changes && self.inner.geometry().read_only { Err(Error::ReadOnly) } else { self.lock().model.accept(work) }
    }
}

impl<D: Disk + 'static, M: DriveModel + 'static> Disk for SimDisk<D, M> {
    fn geometry(&self) -> Geometry {
        self.drive.lock().model.geometry(self.drive.inner.geometry())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.drive.timed(SimWork::Read, Span::new(at, into.len() as u64), |inner| inner.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        self.drive.timed(SimWork::Write(access), span, |inner| inner.write(at, from, access))
    }

    fn flush(&self) -> Result<()> {
        self.drive.timed(SimWork::Flush, Span::new(0, 0), D::flush)
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.drive.timed(SimWork::Trim, span, |inner| inner.trim(span, access))
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.drive.timed(SimWork::Zero(how), span, |inner| inner.write_zeroes(span, how))
    }

    /// Takes no time, because a host's file system answers it and not the device.
    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.drive.inner.extents(span)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        Ok(Some(Box::new(SimQueue::open(Arc::clone(&self.drive))?)))
    }
}
