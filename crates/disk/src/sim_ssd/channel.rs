//! One channel of an SSD: what it does and what waits for it.

use ferrite_memory::planted;

use std::collections::VecDeque;

use crate::sim_disk::Ticket;

/// A page to be read or programmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageWork {
    pub page: u64,
    pub purpose: Purpose,
}

/// For whom.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A read, of which this page gives so many bytes.
    Read { ticket: Ticket, bytes: u64 },
    /// A write that waits for it, and whose bytes have all come at `sent_ns`.
    Write { ticket: Ticket, sent_ns: u64 },
    /// The cache, into which it came as number `order`.
    Destage { order: u64 },
}

/// A channel (SS1).
#[derive(Default)]
pub(super) struct Channel {
    busy: Option<PageWork>,
    reads: VecDeque<PageWork>,
    programs: VecDeque<PageWork>,
    /// The last one was a program.
    programmed: bool,
}

impl Channel {
    /// `work` waits for this channel.
    pub fn enqueue(&mut self, work: PageWork) {
        match work.purpose {
            Purpose::Read { .. } => self.reads.push_back(work),
            Purpose::Write { .. } | Purpose::Destage { .. } => self.programs.push_back(work),
        }
    }

    /// What an idle channel begins now. Programs take turns with reads where one of them is a write that waits, or
    /// where somebody `presses` for it.
    pub fn start(&mut self, presses: bool) -> Option<PageWork> {
        if self.busy.is_some() {
            return None;
        }
        let is_write = |work: &PageWork| matches!(work.purpose, Purpose::Write { .. });
        let waited_for = presses || self.programs.front().is_some_and(is_write);
        let takes_program = waited_for && !self.programmed;
        let takes_program = takes_program || planted!("disk: program goes before a read");
        let first = if takes_program { &mut self.programs } else { &mut self.reads };
        let next = first.pop_front().or_else(|| self.reads.pop_front()).or_else(|| self.programs.pop_front());
        self.programmed = next.is_some_and(|work| !matches!(work.purpose, Purpose::Read { .. }));
        self.busy = next;
        next
    }

    /// What it was doing is done.
    pub fn end(&mut self) -> Option<PageWork> {
        self.busy.take()
    }
}
