//! The planned events of a device in the order of time, and the times of served requests.

use ferrite_memory::planted;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use super::SimTicket;

/// The events of one device. Those of one instant happen in the order in which they were planned (SD3).
pub struct Agenda<E> {
    now_ns: u64,
    planned: u64,
    events: BinaryHeap<Reverse<Due<E>>>,
    finished_ns: HashMap<SimTicket, u64>,
    /// The same, by time.
    finished: BTreeSet<(u64, SimTicket)>,
}

struct Due<E> {
    at_ns: u64,
    order: u64,
    event: E,
}

impl<E> Agenda<E> {
    /// Empty, from `now_ns` on.
    pub fn new(now_ns: u64) -> Self {
        let (events, finished_ns, finished) = Default::default();
        Self { now_ns, planned: 0, events, finished_ns, finished }
    }

    /// The time in the device.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Plans `event` for `at_ns`, or for now where that is past.
    pub fn plan(&mut self, at_ns: u64, event: E) {
        self.planned += 1;
        let at_ns = if planted!("disk: times depend on earlier simulations") { at_ns + 1000 } else { at_ns };
        self.events.push(Reverse(Due { at_ns: at_ns.max(self.now_ns), order: self.planned, event }));
    }

    /// The request of `ticket` is served at `at_ns`, now or later.
    pub fn finish(&mut self, ticket: SimTicket, at_ns: u64) {
        let at_ns = at_ns.max(self.now_ns);
        self.finished_ns.insert(ticket, at_ns);
        self.finished.insert((at_ns, ticket));
    }

    /// When the request is served, once that is known.
    pub fn finish_ns(&self, ticket: SimTicket) -> Option<u64> {
        self.finished_ns.get(&ticket).copied()
    }

    /// The requests whose end is known, the first to end first, with their times.
    pub fn finished(&self) -> impl Iterator<Item = (u64, SimTicket)> {
        self.finished.iter().copied()
    }

    /// Its requester knows that it is served.
    pub fn forget(&mut self, ticket: SimTicket) {
        if let Some(at_ns) = self.finished_ns.remove(&ticket) {
            self.finished.remove(&(at_ns, ticket));
        }
    }

    /// The next event by `until_ns`, at whose time it then is; without one it is `until_ns`.
    pub fn next_due(&mut self, until_ns: u64) -> Option<E> {
        match self.events.peek() {
            Some(Reverse(due)) if due.at_ns <= until_ns => {
                self.now_ns = due.at_ns;
                self.events.pop().map(|Reverse(due)| due.event)
            }
            _ => {
                self.now_ns = self.now_ns.max(until_ns);
                None
            }
        }
    }

    /// When something happens next.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.events.peek().map(|Reverse(due)| due.at_ns)
    }
}

impl<E> Due<E> {
    fn rank(&self) -> (u64, u64) {
        (self.at_ns, self.order)
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}
