//! Read-ahead: what the head has passed and the drive has kept.

use std::collections::VecDeque;

use super::platter::Platter;
use super::profile::HddProfile;
use ferrite_memory::{Span, planted};

/// The read cache: the newest segment first.
pub(super) struct ReadAhead {
    segments: VecDeque<Segment>,
    segments_max: usize,
    segment_bytes: u64,
    /// Since when the head goes on reading behind the newest segment (H5).
    reading_since_ns: Option<u64>,
}

/// Bytes that were read.
#[derive(Clone, Copy)]
struct Segment {
    from: u64,
    to: u64,
}

impl Segment {
    fn covers(self, span: Span) -> bool {
        self.from <= span.at && span.at + span.len <= self.to
    }
}

impl ReadAhead {
    /// Empty.
    pub fn new(profile: &HddProfile) -> Self {
        let (segments_max, segment_bytes) = (profile.segments, profile.segment_bytes);
        Self { segments: VecDeque::new(), segments_max, segment_bytes, reading_since_ns: None }
    }

    /// Returns the newest segment at its size by now.
    fn newest(&self, platter: &Platter, now_ns: u64) -> Option<Segment> {
        let newest = *self.segments.front()?;
        let Some(since_ns) = self.reading_since_ns else { return Some(newest) };
        let passed = platter.byte_after(newest.to, now_ns - since_ns);
        Some(Segment { to: passed.min(newest.to + self.segment_bytes), ..newest })
    }

    /// Whether all of `span` is in the cache.
    pub fn covers(&self, span: Span, platter: &Platter, now_ns: u64) -> bool {
        let newest = self.newest(platter, now_ns);
        newest.into_iter().chain(self.segments.iter().skip(1).copied()).any(|segment| segment.covers(span))
    }

    /// Returns the byte under the head, if reading on reaches the part of `span` that is not read yet.
    pub fn streams_into(&self, span: Span, platter: &Platter, now_ns: u64) -> Option<u64> {
        let until = self.segments.front()?.to + self.segment_bytes;
        self.reading_since_ns?;
        let newest = self.newest(platter, now_ns)?;
        (newest.from <= span.at && span.at <= newest.to && newest.to < until).then_some(newest.to)
    }

    /// The head turns to something else.
    pub fn interrupt(&mut self, platter: &Platter, now_ns: u64) {
        if let Some(newest) = self.newest(platter, now_ns)
            && self.reading_since_ns.take().is_some()
        {
            self.segments[0] = newest;
        }
    }

    /// `span` was read, now, and the head goes on behind it.
    pub fn begin(&mut self, span: Span, now_ns: u64) {
        if self.segments_max == 0 {
            return;
        }
        let end = span.at + span.len;
        let extended = self.segments.iter().position(|segment| segment.from <= span.at && span.at <= segment.to);
        let from = extended.and_then(|at| self.segments.remove(at)).map_or(span.at, |segment| segment.from);
        let from = from.max(end.saturating_sub(self.segment_bytes));
        self.segments.push_front(Segment { from, to: end });
        self.segments.truncate(self.segments_max);
        self.reading_since_ns = Some(now_ns);
        if planted!("disk: idle head reads nothing ahead") {
            self.reading_since_ns = None;
        }
    }
}
