//! What happened to a memory, in order.

use std::fmt;

use ferrite_memory::{Scheme, Span};

use crate::possible::Possible;
use crate::thread::Thread;

/// How stored bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Past the cache, by 8-byte words.
    Nt,
    /// Into the cache, and the lines are flushed by the same thread.
    Flushed,
    /// Into the cache; the next barrier flushes the line.
    Tracked,
    /// Into the cache, and nobody knows.
    Cached,
}

impl From<Scheme> for Way {
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
    /// Bytes of the span were stored; they are kept beside.
    Store(Span, Way),
    /// The span was zeroed.
    Zero(Span, Way),
    Flush(Span),
    Fence,
    /// Of the span alone where there is one.
    Barrier {
        failed: bool,
        span: Option<Span>,
    },
    Reserve(Span),
    /// The host may drop the span's pages; `salt` says which it drops.
    Release {
        span: Span,
        salt: u64,
    },
    /// The user's note.
    Mark(u64),
}

impl Action {
    /// Whether fewer images are possible after it than before.
    pub fn narrows(self) -> bool {
        matches!(self, Self::Fence | Self::Barrier { failed: false, .. })
    }

    /// Whether it notes an acknowledgement.
    pub fn is_mark(self) -> bool {
        matches!(self, Self::Mark(_))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub thread: Thread,
    pub action: Action,
    /// Where the stored bytes start in [`Trace::bytes`].
    from: usize,
}

impl fmt::Display for Event {
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
        }
    }
}

/// Events, and what was possible before the first of them.
#[derive(Clone)]
pub(crate) struct Trace {
    pub start: Possible,
    pub events: Vec<Event>,
    bytes: Vec<u8>,
}

impl Trace {
    pub fn new(start: Possible) -> Self {
        Self { start, events: Vec::new(), bytes: Vec::new() }
    }

    /// Adds an event; `bytes` are a store's.
    pub fn push(&mut self, thread: Thread, action: Action, bytes: &[u8]) {
        self.events.push(Event { thread, action, from: self.bytes.len() });
        self.bytes.extend_from_slice(bytes);
    }

    /// Applies event `number` to `possible`; `true` where more images or more marks are possible after it.
    pub fn apply(&self, number: usize, possible: &mut Possible) -> bool {
        let Event { thread, action, from } = self.events[number];
        let len = if let Action::Store(span, _) = action { span.len as usize } else { 0 };
        possible.apply(thread, action, &self.bytes[from..from + len])
    }

    /// What is possible after all events.
    pub fn end(&self) -> Possible {
        let mut end = self.start.clone();
        for number in 0..self.events.len() {
            self.apply(number, &mut end);
        }
        end
    }

    /// Applies all events to the start and forgets them.
    pub fn fold(&mut self) {
        *self = Self::new(self.end());
    }
}
