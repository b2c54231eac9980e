//! The queues of one thread to the members of a cache.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::{Alarm, Completion, Disk, Op, Queue, ReadyEvent, Request, Wait};
use ferrite_memory::{Error, Result, Span, planted};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use crate::cache_core::CacheCore;
use crate::cache_members::{CacheSsd, SsdState};
use crate::late_queue::drop_queue;

/// A member of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Member {
    Ssd(u8),
    Disk(u8),
}

/// A request to a member.
pub(crate) struct MemberRequest {
    pub member: Member,
    pub op: Op,
    pub span: Span,
    pub buffer: Vec<u8>,
}

/// The end of a request to a member.
pub(crate) struct MemberEnd {
    pub token: u64,
    pub result: Result<()>,
    pub buffer: Vec<u8>,
}

struct MemberQueue {
    /// `None`: the disk works in its caller's thread.
    queue: Option<Box<dyn Queue>>,
    disk: Arc<dyn Disk>,
    opening: u32,
}

struct InFlight {
    member: Member,
    ssd: Option<Arc<CacheSsd>>,
    started_ns: u64,
}

/// The queues.
pub(crate) struct MemberQueues {
    core: Arc<CacheCore>,
    open: HashMap<Member, MemberQueue>,
    in_flight: HashMap<u64, InFlight>,
    /// Requests that are waited for no more.
    abandoned: HashMap<u64, Arc<CacheSsd>>,
    ended: Vec<MemberEnd>,
    next_token: u64,
    /// Readable while one of the queues, the event or the alarm is.
    ready: OwnedFd,
    /// Kept open, because `ready` watches it.
    _event: Arc<ReadyEvent>,
    alarm: Alarm,
    /// When the alarm rings.
    alarm_ns: Option<u64>,
    /// The number of SSDs' failures that were looked at.
    failures_seen: u32,
}

/// A queue that its thread left behind. It is dropped when the device has ended its requests.
pub(crate) struct OrphanQueue {
    /// `None` while it is dropped.
    queue: Option<Box<dyn Queue>>,
    ssd: Option<Arc<CacheSsd>>,
}

impl Drop for OrphanQueue {
    /// The cache may be closed while a device hangs.
    fn drop(&mut self) {
        self.queue.take().into_iter().for_each(|queue| drop_queue(queue, || {}));
    }
}

impl OrphanQueue {
    /// Collects what has ended. Returns true if the device has ended all requests.
    pub fn is_over(&mut self) -> bool {
        let Some(queue) = &mut self.queue else { return true };
        let ended = queue.collect(Wait::No, &mut Vec::new()).unwrap_or(0) as u32;
        if let Some(ssd) = &self.ssd {
            ssd.abandoned.fetch_sub(ended, Ordering::SeqCst);
        }
        queue.in_flight() == 0
    }
}

fn epoll_error(why: rustix::io::Errno) -> Error {
    Error::io("waiting for the members of a cache", why.into())
}

impl MemberQueues {
    /// Returns queues to the members of `core`, each opened at its first request. `event` wakes a wait.
    ///
    /// # Errors
    /// [`Error::Io`] if the host has no descriptor left.
    pub fn new(core: Arc<CacheCore>, event: Arc<ReadyEvent>) -> Result<Self> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(epoll_error)?;
        let alarm = Alarm::new()?;
        for part in [event.as_fd(), alarm.as_fd()] {
            epoll::add(&ready, part, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(epoll_error)?;
        }
        let (open, in_flight, abandoned) = Default::default();
        let (ended, next_token, alarm_ns, failures_seen) = (Vec::new(), 0, None, 0);
        Ok(Self {
            core,
            open,
            in_flight,
            abandoned,
            ended,
            next_token,
            ready,
            _event: event,
            alarm,
            alarm_ns,
            failures_seen,
        })
    }

    /// Ends a wait also when `event` is signalled.
    ///
    /// # Errors
    /// [`Error::Io`] if the host refuses.
    pub fn wait_also_for(&self, event: &ReadyEvent) -> Result<()> {
        epoll::add(&self.ready, event.as_fd(), epoll::EventData::new_u64(2), epoll::EventFlags::IN).map_err(epoll_error)
    }

    /// Returns true if requests have ended that were not collected.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Returns the requests that have ended and were not collected, without a look at the devices.
    pub fn take_ended(&mut self) -> Vec<MemberEnd> {
        std::mem::take(&mut self.ended)
    }

    /// Starts `request`. Returns its token, which its [`MemberEnd`] has.
    pub fn submit(&mut self, request: MemberRequest) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        let MemberRequest { member, op, span, buffer } = request;
        let ssd = match member {
            Member::Ssd(id) => self.core.ssds.get(id),
            Member::Disk(_) => None,
        };
        if let Err(error) = self.open_queue(member, ssd.as_deref()) {
            self.ended.push(MemberEnd { token, result: Err(error), buffer });
            return token;
        }
        let queue = self.open.get_mut(&member).expect("it was just opened");
        let request = Request { token, op, span, buffer };
        let completion = match &mut queue.queue {
            Some(queue) => queue.submit(request),
            None => Some(request.execute(&*queue.disk)),
        };
        match completion {
            Some(Completion { token, buffer, result }) => self.ended.push(MemberEnd { token, result, buffer }),
            None => {
                if let Some(ssd) = &ssd {
                    ssd.in_flight.fetch_add(1, Ordering::Relaxed);
                }
                let is_watched = ssd.is_some() && self.alarm_ns.is_none();
                let started_ns = self.core.clock.now_ns();
                if let Member::Disk(number) = member {
                    self.core.disks[usize::from(number)].note_begun(started_ns);
                }
                self.in_flight.insert(token, InFlight { member, ssd, started_ns });
                if is_watched {
                    self.set_alarm();
                }
            }
        }
        token
    }

    fn open_queue(&mut self, member: Member, ssd: Option<&CacheSsd>) -> Result<()> {
        let (disk, opening) = match member {
            Member::Ssd(id) => {
                let ssd = ssd.ok_or_else(|| missing(&format!("SSD {id}"), "it left the cache"))?;
                let (state, why) = ssd.state();
                if matches!(state, SsdState::Failed | SsdState::Missing) {
                    return Err(missing(&format!("SSD {id}"), &why));
                }
                (ssd.disk(), ssd.opening.load(Ordering::SeqCst))
            }
            Member::Disk(number) => {
                let disk = &self.core.disks[usize::from(number)];
                let open = disk.disk();
                if open.is_none() {
                    return Err(missing(&format!("disk {:?}", disk.config.export), &disk.why()));
                }
                (open, disk.opening.load(Ordering::SeqCst))
            }
        };
        if self.open.get(&member).is_some_and(|queue| queue.opening == opening) {
            return Ok(());
        }
        let disk = disk.ok_or_else(|| missing("the member", "it is not open"))?;
        let queue = disk.queue()?;
        if let Some(queue) = &queue {
            epoll::add(&self.ready, queue.descriptor(), epoll::EventData::new_u64(1), epoll::EventFlags::IN)
                .map_err(epoll_error)?;
        }
        if let Some(before) = self.open.insert(member, MemberQueue { queue, disk, opening }) {
            self.leave(member, before);
        }
        Ok(())
    }

    /// Leaves a queue with requests in flight to the worker, because dropping it would wait for the device.
    fn leave(&mut self, member: Member, queue: MemberQueue) {
        let Some(queue) = queue.queue.filter(|queue| queue.in_flight() > 0) else { return };
        let _ = epoll::delete(&self.ready, queue.descriptor());
        let of_member = |ssd: &Arc<CacheSsd>| member == Member::Ssd(ssd.id);
        let mut ssd = self.abandoned.values().find(|ssd| of_member(ssd)).cloned();
        if let Some(ssd) = &ssd {
            let before = self.abandoned.len();
            self.abandoned.retain(|_, other| other.id != ssd.id);
            ssd.abandoned.fetch_sub((before - self.abandoned.len()) as u32, Ordering::SeqCst);
        }
        let tokens = self.in_flight.iter().filter(|(_, request)| request.member == member);
        for token in tokens.map(|(token, _)| *token).collect::<Vec<_>>() {
            let request = self.in_flight.remove(&token).expect("it was just found");
            self.note_disk_end(&request);
            if let Some(of_request) = request.ssd {
                of_request.in_flight.fetch_sub(1, Ordering::Relaxed);
                ssd = Some(of_request);
            }
            let result = Err(missing("a member", "it was opened again"));
            self.ended.push(MemberEnd { token, result, buffer: Vec::new() });
        }
        if let Some(ssd) = &ssd {
            ssd.abandoned.fetch_add(queue.in_flight() as u32, Ordering::SeqCst);
        }
        self.core.orphans.lock().push(OrphanQueue { queue: Some(queue), ssd });
    }

    /// Returns the requests that have ended, after a wait for the first of them as `wait` says. A wait also ends when the
    /// event is signalled and when an SSD is late.
    ///
    /// # Errors
    /// [`Error::Io`] if a queue fails.
    pub fn collect(&mut self, wait: Wait) -> Result<Vec<MemberEnd>> {
        self.look()?;
        if self.ended.is_empty() && wait != Wait::No {
            self.wait(wait)?;
            self.look()?;
        }
        Ok(self.take_ended())
    }

    fn wait(&mut self, wait: Wait) -> Result<()> {
        if !self.core.clock.passes() {
            return self.wait_virtually();
        }
        let limit = match wait {
            Wait::No => return Ok(()),
            Wait::AtMost(limit) => Timespec::try_from(limit).ok(),
            Wait::Forever => None,
        };
        match poll(&mut [PollFd::from_borrowed_fd(self.ready.as_fd(), PollFlags::IN)], limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(why) => Err(epoll_error(why)),
        }
    }

    /// Moves a clock that does not pass by itself until a request ends.
    fn wait_virtually(&mut self) -> Result<()> {
        let mut completions = Vec::new();
        for queue in self.open.values_mut().filter_map(|queue| queue.queue.as_mut()) {
            if completions.is_empty() && queue.in_flight() > 0 {
                queue.collect(Wait::Forever, &mut completions)?;
            }
        }
        if completions.is_empty() && self.ended.is_empty() {
            // Such a clock has one thread: no other one ends the wait.
            return Err(Error::Unsupported("a wait on a virtual clock while no request is in flight".into()));
        }
        self.take(completions);
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let mut completions = Vec::new();
        for queue in self.open.values_mut().filter_map(|queue| queue.queue.as_mut()) {
            queue.collect(Wait::No, &mut completions)?;
        }
        self.take(completions);
        let failures = self.core.failures.load(Ordering::SeqCst);
        let is_due = self.alarm_ns.is_some_and(|at_ns| self.core.clock.now_ns() >= at_ns);
        if is_due || failures != self.failures_seen {
            self.failures_seen = failures;
            self.abandon_late();
            self.set_alarm();
        }
        Ok(())
    }

    fn take(&mut self, completions: Vec<Completion>) {
        for Completion { token, buffer, result } in completions {
            if let Some(ssd) = self.abandoned.remove(&token) {
                ssd.abandoned.fetch_sub(1, Ordering::SeqCst);
            } else if let Some(request) = self.in_flight.remove(&token) {
                self.note_disk_end(&request);
                if let Some(ssd) = &request.ssd {
                    ssd.in_flight.fetch_sub(1, Ordering::Relaxed);
                }
                self.ended.push(MemberEnd { token, result, buffer });
            }
        }
    }

    fn note_disk_end(&self, request: &InFlight) {
        if let Member::Disk(number) = request.member {
            self.core.disks[usize::from(number)].note_ended(self.core.clock.now_ns());
        }
    }

    /// Ends the requests to SSDs that have failed or do not answer any more (CA18).
    fn abandon_late(&mut self) {
        let (now_ns, timeout_ns) = (self.core.clock.now_ns(), self.core.settings().ssd_timeout_ns);
        let is_late = |request: &InFlight| {
            let Some(ssd) = &request.ssd else { return false };
            let is_late = now_ns.saturating_sub(request.started_ns) >= timeout_ns;
            if is_late {
                let why = format!("it did not answer within {} ms", timeout_ns / 1_000_000);
                self.core.fail_ssd(ssd, &why);
            }
            is_late || !ssd.is_readable()
        };
        let late: Vec<u64> =
            self.in_flight.iter().filter(|(_, request)| is_late(request)).map(|(token, _)| *token).collect();
        for token in late {
            let request = self.in_flight.remove(&token).expect("it was just found");
            let ssd = request.ssd.expect("only requests to SSDs are abandoned");
            ssd.in_flight.fetch_sub(1, Ordering::Relaxed);
            ssd.abandoned.fetch_add(1, Ordering::SeqCst);
            let error = missing(&format!("SSD {}", ssd.id), &ssd.state().1);
            planted!("cache: the queue of a late SSD is dropped" => _ = self.open.remove(&Member::Ssd(ssd.id)));
            self.abandoned.insert(token, ssd);
            self.ended.push(MemberEnd { token, result: Err(error), buffer: Vec::new() });
        }
    }

    /// Rings when the first SSD is late.
    fn set_alarm(&mut self) {
        let timeout_ns = self.core.settings().ssd_timeout_ns;
        let started = self.in_flight.values().filter(|request| matches!(request.member, Member::Ssd(_)));
        let first_ns = started.map(|request| request.started_ns).min();
        self.alarm_ns = first_ns.map(|at_ns| at_ns + timeout_ns);
        if self.core.clock.passes() {
            self.alarm.set(&*self.core.clock, self.alarm_ns);
        }
    }

    /// Returns the descriptor to wait for.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Drop for MemberQueues {
    fn drop(&mut self) {
        for (member, queue) in std::mem::take(&mut self.open) {
            self.leave(member, queue);
        }
    }
}

fn missing(member: &str, why: &str) -> Error {
    Error::io(format!("{member} of the cache"), std::io::Error::other(format!("not reached: {why}")))
}
