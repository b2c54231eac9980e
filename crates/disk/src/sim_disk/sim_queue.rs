//! A queue to a simulated drive.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use ferrite_memory::{Result, planted};

use super::{DriveModel, SimDrive, SimTicket, SimWork};
use crate::ready_event::Alarm;
use crate::{Completion, Disk, Op, Queue, Request, Wait};

/// Requests of one queue in a simulated drive.
///
/// On a clock that does not pass by itself the descriptor is readable while requests are in flight: waiting in `collect`
/// moves the clock.
pub(super) struct SimQueue<D, M: DriveModel> {
    drive: Arc<SimDrive<D, M>>,
    /// The completions of requests that the drive works on.
    pending: HashMap<SimTicket, Completion>,
    /// Rings when the drive may have served one of them.
    alarm: Alarm,
}

/// Returns the work of a request for a drive.
fn work_of(request: &Request) -> SimWork {
    match request.op {
        Op::Read => SimWork::Read,
        Op::Write(access) => SimWork::Write(access),
        Op::Flush => SimWork::Flush,
        Op::Trim(_) => SimWork::Trim,
        Op::Zero(how) => SimWork::Zero(how),
    }
}

impl<D: Disk, M: DriveModel> SimQueue<D, M> {
    /// Opens a queue to `drive`.
    ///
    /// # Errors
    /// [`ferrite_memory::Error::Io`] if the host has no descriptor left.
    pub fn open(drive: Arc<SimDrive<D, M>>) -> Result<Self> {
        Ok(Self { drive, pending: HashMap::new(), alarm: Alarm::new()? })
    }

    /// Moves completions that are due at `now_ns` to `completions`, in the order in which the drive served them.
    /// Returns when to look again.
    fn look(&mut self, now_ns: u64, completions: &mut Vec<Completion>) -> Option<u64> {
        let mut state = self.drive.lock();
        state.advance(now_ns);
        let due_ns = if planted!("disk: request completes before its time") { u64::MAX } else { now_ns };
        let of_queue = |(_, ticket): &(u64, SimTicket)| self.pending.contains_key(ticket);
        let due = state.agenda.finished().take_while(|(at_ns, _)| *at_ns <= due_ns).filter(of_queue);
        for ticket in due.map(|(_, ticket)| ticket).collect::<Vec<_>>() {
            state.agenda.forget(ticket);
            completions.extend(self.pending.remove(&ticket));
        }
        if self.pending.is_empty() {
            return None;
        }
        let of_queue = |(_, ticket): &(u64, SimTicket)| self.pending.contains_key(ticket);
        let finished_ns = state.agenda.finished().find(of_queue).map(|(at_ns, _)| at_ns);
        finished_ns.into_iter().chain(state.agenda.next_event_ns()).min()
    }
}

impl<D: Disk, M: DriveModel> Queue for SimQueue<D, M> {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        let (work, span) = (work_of(&request), request.touched());
        if let Err(refused) = self.drive.admit(work, span) {
            return Some(request.complete(Err(refused)));
        }
        let ticket = self.drive.begin(work, span);
        let is_lost = work == SimWork::Flush && planted!("disk: flush does not reach the inner disk");
        let completion = if is_lost { request.complete(Ok(())) } else { request.execute(&self.drive.inner) };
        self.pending.insert(ticket, completion);
        let mut state = self.drive.lock();
        let now_ns = self.drive.clock.now_ns();
        state.advance(now_ns);
        let finished_ns = state.agenda.finish_ns(ticket);
        let look_ns = finished_ns.into_iter().chain(state.agenda.next_event_ns()).min();
        self.alarm.bring_forward(&*self.drive.clock, look_ns);
        None
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let before = completions.len();
        let mut now_ns = self.drive.clock.now_ns();
        let until_ns = match wait {
            Wait::No => now_ns,
            Wait::AtMost(limit) => now_ns.saturating_add(limit.as_nanos().try_into().unwrap_or(u64::MAX)),
            Wait::Forever => u64::MAX,
        };
        loop {
            let look_ns = self.look(now_ns, completions);
            self.alarm.set(&*self.drive.clock, look_ns);
            if completions.len() > before || now_ns >= until_ns || self.pending.is_empty() {
                return Ok(completions.len() - before);
            }
            let look_ns = look_ns.expect("a drive that owes a request is at work");
            self.drive.clock.wait_until_ns(look_ns.min(until_ns));
            now_ns = self.drive.clock.now_ns();
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }
}

impl<D, M: DriveModel> Drop for SimQueue<D, M> {
    fn drop(&mut self) {
        self.pending.keys().for_each(|ticket| self.drive.wait_for(*ticket));
    }
}
