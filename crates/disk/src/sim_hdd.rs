//! A simulated hard disk: one head over turning platters, a queue, a write cache and read-ahead.
//!
//! ```text
//!         command, link          queue: nearest first          head
//! read  ------------------> [cache?] --no--> seek, wait for the sector, transfer --> done
//! write ------------------> write cache: done            ^
//!                              \---- when the head is free or a flush waits --------/
//! ```
//!
//! The model follows Ruemmler and Wilkes ("An introduction to disk drive modeling", 1994): a seek curve that begins
//! like a square root and ends straight, a rotation that continues between requests, zones of falling transfer rate,
//! read-ahead, write-behind.
//!
//! - H1. The head serves one request at a time: seek, rotation to its first byte, transfer at its zone's rate. A
//!   request that continues the previous one on the surface without delay needs neither seek nor rotation.
//! - H2. The position of the platters follows from the time and the seed alone.
//! - H3. Of the requests in its queue, at most `queue_depth`, the head serves the one it reaches first. A request that
//!   has waited for [`PATIENCE_NS`] goes before.
//! - H4. A flush, and a FUA write, completes when its data is on the platters; a cached write when it is in the cache.
//!   The cache is written while the head is idle, or beside the queue if a flush waits or the cache is full.
//! - H5. An idle head that has read continues to read into its cache, until that is full or another request comes.

use std::collections::VecDeque;

use crate::sim_disk::{Agenda, Clock, DriveModel, SimDisk, SimJob, SimTicket, SimWork, WriteCache};
use crate::{Access, Disk, Geometry, Zeroing};
use ferrite_memory::{Error, Result, Span, planted};

mod ahead;
mod dirty;
mod platter;
mod profile;
#[cfg(test)]
mod tests;

use ahead::ReadAhead;
use dirty::DirtyRanges;
use platter::Platter;
pub use profile::HddProfile;

/// A disk with the data of `D` and the timing of a hard disk.
pub type HddDisk<D> = SimDisk<D, Hdd>;

/// How long a request may be passed by.
pub const PATIENCE_NS: u64 = 500_000_000;
/// Most bytes that are written from the cache in one go.
const DESTAGE_MAX_BYTES: u64 = 1 << 20;

impl<D: Disk> SimDisk<D, Hdd> {
    /// `inner` with the timing of `profile`. `seed` says where the platters stand when the clock starts.
    pub fn new(inner: D, profile: &HddProfile, clock: impl Clock + 'static, seed: u64) -> Self {
        let model = Hdd::new(profile, inner.geometry().size, seed);
        Self::with_model(inner, model, clock)
    }
}

/// What happens in a hard disk.
pub enum HddEvent {
    /// A request was understood, and its data is coming.
    Ready(SimJob),
    /// The head has done what it was doing.
    Done,
}

/// The model of a hard disk.
pub struct Hdd {
    profile: HddProfile,
    platter: Platter,
    link_free_ns: u64,
    /// Where the head was last.
    head_byte: u64,
    busy: Option<Stroke>,
    queue: VecDeque<WaitingJob>,
    dirty: DirtyRanges,
    ahead: ReadAhead,
    /// Writes that the cache has no room for.
    blocked: VecDeque<SimJob>,
    flushes: Vec<SimTicket>,
}

/// A request for the head.
#[derive(Clone, Copy)]
struct WaitingJob {
    job: SimJob,
    since_ns: u64,
}

/// The current work of the head.
struct Stroke {
    span: Span,
    purpose: StrokePurpose,
}

enum StrokePurpose {
    Read(SimTicket),
    Write(SimJob),
    Destage,
}

/// The possible next work of the head.
enum HeadChoice {
    Queued(usize),
    Dirty(u64),
}

impl Hdd {
    fn new(profile: &HddProfile, size: u64, seed: u64) -> Self {
        Self {
            profile: profile.clone(),
            platter: Platter::new(profile, size, seed),
            link_free_ns: 0,
            head_byte: 0,
            busy: None,
            queue: VecDeque::new(),
            dirty: DirtyRanges::default(),
            ahead: ReadAhead::new(profile),
            blocked: VecDeque::new(),
            flushes: Vec::new(),
        }
    }

    /// When `bytes` have gone over the link from `from_ns` on.
    fn send(&mut self, bytes: u64, from_ns: u64) -> u64 {
        self.link_free_ns = self.link_free_ns.max(from_ns) + nanoseconds(bytes, self.profile.link_bytes_per_s);
        self.link_free_ns
    }

    fn is_cached(&self, access: Access) -> bool {
        match self.profile.cache {
            WriteCache::Off => false,
            WriteCache::Volatile(_) => access == Access::Cached,
            WriteCache::Protected(_) => true,
        }
    }

    fn ready(&mut self, job: SimJob, agenda: &mut Agenda<HddEvent>) {
        match job.work {
            SimWork::Read if self.has_cached(job.span, agenda.now_ns()) => {
                let sent_ns = self.send(job.span.len, agenda.now_ns());
                agenda.finish(job.ticket, sent_ns);
            }
            SimWork::Write(access) | SimWork::Zero(Zeroing { access, .. }) if self.is_cached(access) => {
                self.blocked.push_back(job);
                self.fill_cache(agenda);
            }
            SimWork::Read | SimWork::Write(_) | SimWork::Zero(_) => self.enqueue(job, agenda.now_ns()),
            SimWork::Flush if self.profile.cache.is_volatile() => {
                self.dirty.hurry();
                self.flushes.push(job.ticket);
                self.end_flushes(agenda);
            }
            SimWork::Flush | SimWork::Trim => agenda.finish(job.ticket, agenda.now_ns()),
        }
    }

    fn has_cached(&self, span: Span, now_ns: u64) -> bool {
        self.dirty.covers(span) || self.ahead.covers(span, &self.platter, now_ns)
    }

    fn enqueue(&mut self, job: SimJob, since_ns: u64) {
        self.queue.push_back(WaitingJob { job, since_ns });
    }

    /// Takes writes into the cache, in order, while it has room; one that would never fit goes to the platters.
    fn fill_cache(&mut self, agenda: &mut Agenda<HddEvent>) {
        let capacity_bytes = self.profile.cache.capacity_bytes();
        while let Some(job) = self.blocked.front().copied() {
            if job.span.len > capacity_bytes {
                self.enqueue(job, agenda.now_ns());
            } else if self.dirty.held_bytes() + job.span.len <= capacity_bytes {
                self.dirty.add(job.span);
                agenda.finish(job.ticket, job.sent_ns);
            } else {
                return;
            }
            self.blocked.pop_front();
        }
    }

    fn end_flushes(&mut self, agenda: &mut Agenda<HddEvent>) {
        let is_urgent = self.dirty.is_urgent();
        let is_urgent = is_urgent && !planted!("disk: flush does not wait for writes");
        if is_urgent {
            return;
        }
        for ticket in self.flushes.drain(..) {
            agenda.finish(ticket, agenda.now_ns());
        }
    }

    /// H1: from now until `span` is transferred.
    fn service_ns(&self, span: Span, is_read: bool, now_ns: u64) -> u64 {
        let end = span.at + span.len;
        if is_read && let Some(reached) = self.ahead.streams_into(span, &self.platter, now_ns) {
            return self.platter.transfer_ns(reached, end);
        }
        let settle_ns = if is_read { 0 } else { self.profile.write_settle_ns };
        let seek_ns = self.platter.seek_ns(self.head_byte, span.at, settle_ns);
        let rotation_ns = self.platter.rotation_wait_ns(span.at, now_ns + seek_ns);
        let rotation_ns = if planted!("disk: head does not wait for the sector") { 0 } else { rotation_ns };
        seek_ns + rotation_ns + self.platter.transfer_ns(span.at, end)
    }

    /// How soon the head can begin with `span`.
    fn reach_ns(&self, span: Span, is_read: bool, now_ns: u64) -> u64 {
        self.service_ns(Span::new(span.at, 0), is_read, now_ns)
    }

    /// H3, H4.
    fn choose(&self, now_ns: u64) -> Option<HeadChoice> {
        let visible = || self.queue.iter().enumerate().take(self.profile.queue_depth.max(1));
        let overdue = visible().find(|(_, waiting)| now_ns - waiting.since_ns > PATIENCE_NS);
        let overdue = if planted!("disk: head serves requests in their order") { visible().next() } else { overdue };
        let overdue = overdue.filter(|_| !planted!("disk: head always serves the nearest request"));
        if let Some((at, _)) = overdue {
            return Some(HeadChoice::Queued(at));
        }
        let queued = visible().map(|(at, waiting)| {
            let is_read = waiting.job.work == SimWork::Read;
            (self.reach_ns(waiting.job.span, is_read, now_ns), HeadChoice::Queued(at))
        });
        let presses = !self.flushes.is_empty() || !self.blocked.is_empty();
        let dirty = self.dirty.starts(self.blocked.is_empty() && !self.flushes.is_empty());
        let dirty = dirty.filter(|_| presses || self.queue.is_empty());
        let destages = dirty.map(|at| (self.reach_ns(Span::new(at, 0), false, now_ns), HeadChoice::Dirty(at)));
        queued.chain(destages).min_by_key(|(reach_ns, _)| *reach_ns).map(|(_, choice)| choice)
    }

    /// Gives an idle head its next work.
    fn kick(&mut self, agenda: &mut Agenda<HddEvent>) {
        if self.busy.is_some() {
            return;
        }
        let now_ns = agenda.now_ns();
        let Some(choice) = self.choose(now_ns) else { return };
        let stroke = self.take(choice);
        let is_read = matches!(stroke.purpose, StrokePurpose::Read(_));
        let done_ns = now_ns + self.service_ns(stroke.span, is_read, now_ns);
        self.ahead.interrupt(&self.platter, now_ns);
        self.busy = Some(stroke);
        agenda.plan(done_ns, HddEvent::Done);
    }

    fn take(&mut self, choice: HeadChoice) -> Stroke {
        match choice {
            HeadChoice::Queued(at) => {
                let job = self.queue.remove(at).expect("chosen from the queue").job;
                let purpose =
                    if job.work == SimWork::Read { StrokePurpose::Read(job.ticket) } else { StrokePurpose::Write(job) };
                Stroke { span: job.span, purpose }
            }
            HeadChoice::Dirty(at) => {
                Stroke { span: self.dirty.take(at, DESTAGE_MAX_BYTES), purpose: StrokePurpose::Destage }
            }
        }
    }

    fn done(&mut self, agenda: &mut Agenda<HddEvent>) {
        let Some(Stroke { span, purpose }) = self.busy.take() else { return };
        self.head_byte = span.at + span.len;
        match purpose {
            StrokePurpose::Read(ticket) => {
                self.ahead.begin(span, agenda.now_ns());
                agenda.finish(ticket, agenda.now_ns());
            }
            StrokePurpose::Write(job) => agenda.finish(job.ticket, job.sent_ns),
            StrokePurpose::Destage => {
                self.dirty.written(span);
                self.fill_cache(agenda);
                self.end_flushes(agenda);
            }
        }
    }
}

impl DriveModel for Hdd {
    type Event = HddEvent;

    fn arrive(&mut self, job: SimJob, agenda: &mut Agenda<HddEvent>) {
        let understood_ns = agenda.now_ns() + self.profile.command_ns;
        let sent_ns = if matches!(job.work, SimWork::Write(_)) { self.send(job.span.len, understood_ns) } else { 0 };
        agenda.plan(understood_ns, HddEvent::Ready(SimJob { sent_ns, ..job }));
    }

    fn happen(&mut self, event: HddEvent, agenda: &mut Agenda<HddEvent>) {
        match event {
            HddEvent::Ready(job) => self.ready(job, agenda),
            HddEvent::Done => self.done(agenda),
        }
        self.kick(agenda);
    }

    fn geometry(&self, inner: Geometry) -> Geometry {
        let volatile_cache = inner.volatile_cache || self.profile.cache.is_volatile();
        Geometry { volatile_cache, trim: false, ..inner }
    }

    fn accept(&self, work: SimWork) -> Result<()> {
        match work {
            SimWork::Zero(how) if how.fast => Err(Error::Unsupported("fast zeroes on a hard disk".into())),
            _ => Ok(()),
        }
    }
}

fn nanoseconds(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1))) as u64
}
