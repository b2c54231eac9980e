//! The bytes of a file that programs wrote and the disk could not store.

use std::collections::BTreeMap;

use ferrite_memory::Span;
use fuser::Errno;

/// Ranges that are kept apart. More of them become one range from the first byte to the last: then bytes in between
/// count as lost, and no lost byte is forgotten.
const RANGES_MAX: usize = 1024;

/// Bytes whose last write failed, with the error of the latest failure.
#[derive(Debug, Default)]
pub(super) struct LostRanges {
    /// The end of each range by its start. Ranges do not overlap.
    ranges: BTreeMap<u64, u64>,
    why: Option<Errno>,
}

impl LostRanges {
    /// Notes that the write of `span` failed with `why`.
    pub fn lose(&mut self, span: Span, why: Errno) {
        if span.len == 0 {
            return;
        }
        self.store(span);
        self.ranges.insert(span.at, span.at + span.len);
        self.why = Some(why);
        if self.ranges.len() > RANGES_MAX
            && let (Some((first, _)), Some((_, last))) = (self.ranges.first_key_value(), self.ranges.last_key_value())
        {
            self.ranges = BTreeMap::from([(*first, *last)]);
        }
    }

    /// Notes that `span` is stored: its bytes are not lost any more.
    pub fn store(&mut self, span: Span) {
        let end = span.at + span.len;
        while let Some((&start, &stop)) = self.ranges.range(..end).next_back().filter(|(_, stop)| **stop > span.at) {
            self.ranges.remove(&start);
            if stop > end {
                self.ranges.insert(end, stop);
            }
            if start < span.at {
                self.ranges.insert(start, span.at);
            }
        }
    }

    /// Returns the error of the latest write that failed, if bytes are lost.
    pub fn why(&self) -> Option<Errno> {
        self.why.filter(|_| !self.ranges.is_empty())
    }

    /// Returns the number of lost bytes.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests;
