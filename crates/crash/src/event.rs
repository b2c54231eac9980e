//! The calls on a memory and on the disks beside it, in one order.

use std::fmt;

use ferrite_memory::{Scheme, Span};

use crate::possible::Possible;
use crate::possible_disk::DiskEvent;
use crate::thread::Thread;

/// The way of stored bytes to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreWay {
    /// Past the cache, by 8-byte words.
    Nt,
    /// Into the cache, and the same thread flushes the lines.
    Flushed,
    /// Into the cache, and the next barrier flushes the line.
    Tracked,
    /// Into the cache, without a record of the line.
    Cached,
}

impl From<Scheme> for StoreWay {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Nt => Self::Nt,
            Scheme::Writeback | Scheme::WritebackAll => Self::Tracked,
            Scheme::Flush | Scheme::Clwb | Scheme::Clflushopt | Scheme::Clflush | Scheme::Writethrough => Self::Flushed,
        }
    }
}

/// One call that changes what a crash may leave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Bytes of the span were stored. The trace keeps the bytes.
    Store(Span, StoreWay),
    /// The span was zeroed.
    Zero(Span, StoreWay),
    Flush(Span),
    Fence,
    /// A barrier for all bytes, or for the span only.
    Barrier {
        failed: bool,
        span: Option<Span>,
    },
    Reserve(Span),
    /// The host may drop the span's pages; `salt` chooses them.
    Release {
        span: Span,
        salt: u64,
    },
    /// The test recorded an acknowledgement.
    Mark(u64),
    /// A step of a request to the disk with this number. The trace keeps the bytes of a write.
    Disk(usize, DiskEvent),
}

impl Action {
    /// Returns true if fewer images are possible after the event than before, when `before` were.
    pub fn narrows(self, before: &Possible) -> bool {
        match self {
            Self::Fence | Self::Barrier { failed: false, .. } => true,
            Self::Disk(disk, event) => before.disks[disk].is_narrowed_by(event),
            _ => false,
        }
    }

    /// Returns true if the event records an acknowledgement.
    pub fn is_mark(self) -> bool {
        matches!(self, Self::Mark(_))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceEvent {
    pub thread: Thread,
    pub action: Action,
    /// Offset of the stored bytes in [`EventTrace::bytes`].
    from: usize,
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.thread)?;
        match self.action {
            Action::Store(span, way) => write!(f, "store {way:?} {} bytes at {}", span.len, span.at),
            Action::Zero(span, way) => write!(f, "zero {way:?} {} bytes at {}", span.len, span.at),
            Action::Flush(span) => write!(f, "flush {} bytes at {}", span.len, span.at),
            Action::Fence => write!(f, "fence"),
            Action::Barrier { failed, span } => {
                span.map_or(Ok(()), |span| write!(f, "{} bytes at {}: ", span.len, span.at))?;
                write!(f, "barrier{}", if failed { " (failed)" } else { "" })
            }
            Action::Reserve(span) => write!(f, "reserve {} bytes at {}", span.len, span.at),
            Action::Release { span, .. } => write!(f, "release {} bytes at {}", span.len, span.at),
            Action::Mark(mark) => write!(f, "mark {mark}"),
            Action::Disk(disk, event) => write!(f, "disk {disk}: {event}"),
        }
    }
}

/// Events, and the images possible before the first of them.
#[derive(Clone)]
pub(crate) struct EventTrace {
    pub start: Possible,
    pub events: Vec<TraceEvent>,
    bytes: Vec<u8>,
}

impl EventTrace {
    pub fn new(start: Possible) -> Self {
        Self { start, events: Vec::new(), bytes: Vec::new() }
    }

    /// Adds an event; `bytes` are the bytes of a store, or of a write to a disk.
    pub fn push(&mut self, thread: Thread, action: Action, bytes: &[u8]) {
        self.events.push(TraceEvent { thread, action, from: self.bytes.len() });
        self.bytes.extend_from_slice(bytes);
    }

    /// Applies event `number` to `possible`. Returns true if more images or marks are possible afterwards.
    pub fn apply(&self, number: usize, possible: &mut Possible) -> bool {
        let TraceEvent { thread, action, from } = self.events[number];
        let len = match action {
            Action::Store(span, _) | Action::Disk(_, DiskEvent::Begin(span)) => span.len as usize,
            _ => 0,
        };
        possible.apply(thread, action, &self.bytes[from..from + len])
    }

    /// Returns the images possible after all events.
    pub fn end(&self) -> Possible {
        let mut end = self.start.clone();
        for number in 0..self.events.len() {
            self.apply(number, &mut end);
        }
        end
    }

    /// Applies all events to the start and drops them.
    pub fn fold(&mut self) {
        *self = Self::new(self.end());
    }
}
