//! One channel of an SSD: what it does and what waits for it.

use ferrite_memory::planted;

use std::collections::VecDeque;

use crate::sim_disk::SimTicket;

/// A page to be read or programmed, or work of the translation layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageWork {
    pub page: u64,
    pub purpose: PagePurpose,
}

/// For whom.
#[derive(Clone, Copy, Debug)]
pub(super) enum PagePurpose {
    /// A read, of which this page gives so many bytes.
    Read { ticket: SimTicket, bytes: u64 },
    /// A write that waits for it, and whose bytes have all come at `sent_ns`.
    Write { ticket: SimTicket, sent_ns: u64 },
    /// The cache, into which it came as number `order`.
    Destage { order: u64 },
    /// A copy or an erase before the page's program. `is_awaited`: a write waits for that program.
    Reclaim { mean_ns: u64, is_awaited: bool },
}

/// A channel (SS1).
#[derive(Default)]
pub(super) struct FlashChannel {
    busy: Option<PageWork>,
    reads: VecDeque<PageWork>,
    programs: VecDeque<PageWork>,
    /// The last one was a program.
    programmed: bool,
}

impl FlashChannel {
    /// `work` waits for this channel.
    pub fn enqueue(&mut self, work: PageWork) {
        match work.purpose {
            PagePurpose::Read { .. } => self.reads.push_back(work),
            _ => self.programs.push_back(work),
        }
    }

    /// Returns the next work of an idle channel. Programs take turns with reads if a program serves a waiting write, or
    /// if a request `presses` for it.
    pub fn start(&mut self, presses: bool) -> Option<PageWork> {
        if self.busy.is_some() {
            return None;
        }
        let is_awaited = |work: &PageWork| {
            matches!(work.purpose, PagePurpose::Write { .. } | PagePurpose::Reclaim { is_awaited: true, .. })
        };
        let waited_for = presses || self.programs.front().is_some_and(is_awaited);
        let takes_program = waited_for && !self.programmed;
        let takes_program = takes_program || planted!("disk: program goes before a read");
        let first = if takes_program { &mut self.programs } else { &mut self.reads };
        let next = first.pop_front().or_else(|| self.reads.pop_front()).or_else(|| self.programs.pop_front());
        self.programmed = next.is_some_and(|work| !matches!(work.purpose, PagePurpose::Read { .. }));
        self.busy = next;
        next
    }

    /// Ends the current work.
    pub fn end(&mut self) -> Option<PageWork> {
        self.busy.take()
    }
}
