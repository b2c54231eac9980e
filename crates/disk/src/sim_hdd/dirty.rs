//! The write cache of a hard disk.

use std::collections::BTreeMap;

use ferrite_memory::Span;

/// Spans to be written, with neighbours merged. Spans for which a flush waits are kept apart (H4).
#[derive(Default)]
pub(super) struct DirtyRanges {
    lazy: Extents,
    urgent: Extents,
    /// Of both, and of what is being written.
    held_bytes: u64,
    /// The bytes being written, if a flush waits for them.
    urgent_bytes: u64,
    writing_bytes: u64,
}

/// Starts and ends.
#[derive(Default)]
struct Extents(BTreeMap<u64, u64>);

impl DirtyRanges {
    /// Bytes of the cache that are taken.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// `span` was written to the cache.
    pub fn add(&mut self, span: Span) {
        self.held_bytes += self.lazy.add(span);
    }

    /// Makes everything urgent, the bytes being written included.
    pub fn hurry(&mut self) {
        for (at, end) in std::mem::take(&mut self.lazy.0) {
            let doubled_bytes = end - at - self.urgent.add(Span::new(at, end - at));
            self.held_bytes -= doubled_bytes;
        }
        self.urgent_bytes = self.writing_bytes;
    }

    /// Whether something that a flush waits for is not written yet.
    pub fn is_urgent(&self) -> bool {
        !self.urgent.0.is_empty() || self.urgent_bytes > 0
    }

    /// Whether all of `span` is in the cache.
    pub fn covers(&self, span: Span) -> bool {
        self.lazy.covers(span) || self.urgent.covers(span)
    }

    /// Returns the starts of the spans to be written.
    pub fn starts(&self, only_urgent: bool) -> impl Iterator<Item = u64> {
        let lazy = self.lazy.0.keys().filter(move |_| !only_urgent);
        self.urgent.0.keys().chain(lazy).copied()
    }

    /// Takes at most `most_bytes` of the extent that starts at `at`, to be written.
    pub fn take(&mut self, at: u64, most_bytes: u64) -> Span {
        let urgent = self.urgent.take(at, most_bytes);
        let span = urgent.or_else(|| self.lazy.take(at, most_bytes)).expect("chosen from the starts");
        self.writing_bytes = span.len;
        self.urgent_bytes = if urgent.is_some() { span.len } else { 0 };
        span
    }

    /// `span`, which was taken, is on the platters.
    pub fn written(&mut self, span: Span) {
        (self.writing_bytes, self.urgent_bytes) = (0, 0);
        self.held_bytes -= span.len;
    }
}

impl Extents {
    /// Adds `span` and returns by how many bytes the whole grew.
    fn add(&mut self, span: Span) -> u64 {
        let (mut at, mut end) = (span.at, span.at + span.len);
        let mut held_bytes = 0;
        while let Some((&other_at, &other_end)) = self.0.range(..=end).next_back()
            && other_end >= at
        {
            self.0.remove(&other_at);
            held_bytes += other_end - other_at;
            (at, end) = (at.min(other_at), end.max(other_end));
        }
        if end > at {
            self.0.insert(at, end);
        }
        end - at - held_bytes
    }

    fn covers(&self, span: Span) -> bool {
        self.0.range(..=span.at).next_back().is_some_and(|(_, end)| *end >= span.at + span.len)
    }

    fn take(&mut self, at: u64, most_bytes: u64) -> Option<Span> {
        let end = self.0.remove(&at)?;
        let until = end.min(at + most_bytes);
        if until < end {
            self.0.insert(until, end);
        }
        Some(Span::new(at, until - at))
    }
}
