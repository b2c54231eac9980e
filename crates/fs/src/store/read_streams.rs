//! Sequential reads of files, so that pages behind them are read from SSDs before they are asked for.

use std::collections::VecDeque;
use std::ops::Range;

use parking_lot::Mutex;

use crate::Ino;
use crate::format::segment::SEGMENT_BYTES;

/// Bytes that are read ahead of a stream.
const AHEAD_BYTES: u64 = 2 << 20;
/// Bytes that are read ahead of a stream the first time.
const FIRST_BYTES: u64 = AHEAD_BYTES / 2;
/// Streams that are known at a time.
const STREAMS_MAX: usize = 16;

/// The last streams of reads, the latest at the end.
#[derive(Debug, Default)]
pub(crate) struct ReadStreams(Mutex<VecDeque<ReadStream>>);

#[derive(Debug)]
struct ReadStream {
    ino: Ino,
    /// The byte at which the next read continues.
    end: u64,
    /// The end of the bytes that were read ahead.
    ahead: u64,
}

impl ReadStreams {
    /// Notes a read of the bytes `range` of `ino`. Returns the bytes to read ahead, if the read continues an earlier one
    /// and a segment of what was read ahead has been used.
    pub fn note(&self, ino: Ino, range: Range<u64>) -> Option<Range<u64>> {
        let mut streams = self.0.lock();
        let known = streams.iter().position(|stream| (stream.ino, stream.end) == (ino, range.start));
        let known = known.and_then(|index| streams.remove(index));
        let (ahead, target) = match &known {
            Some(stream) => {
                let bytes = if stream.ahead > stream.end { AHEAD_BYTES } else { FIRST_BYTES };
                (stream.ahead.max(range.end), range.end.saturating_add(bytes))
            }
            None => (range.end, range.end),
        };
        let wanted = Some(ahead..target).filter(|wanted| wanted.end.saturating_sub(wanted.start) >= SEGMENT_BYTES);
        if streams.len() == STREAMS_MAX {
            streams.pop_front();
        }
        streams.push_back(ReadStream {
            ino,
            end: range.end,
            ahead: wanted.as_ref().map_or(ahead, |wanted| wanted.end),
        });
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_continues_another_one_is_read_ahead_of() {
        const KIB: u64 = 1 << 10;
        let streams = ReadStreams::default();
        let (one, other) = (Ino(1), Ino(2));
        assert_eq!(streams.note(one, 0..128 * KIB), None, "the first read");
        assert_eq!(streams.note(other, 128 * KIB..256 * KIB), None, "another file");
        assert_eq!(streams.note(one, 5120 * KIB..5248 * KIB), None, "another place");
        assert_eq!(streams.note(one, 128 * KIB..256 * KIB), Some(256 * KIB..1280 * KIB));
        assert_eq!(streams.note(one, 256 * KIB..384 * KIB), Some(1280 * KIB..2432 * KIB), "twice as many");
        for part in 3..6 {
            assert_eq!(
                streams.note(one, part * 128 * KIB..(part + 1) * 128 * KIB),
                None,
                "less than a segment is used"
            );
        }
        assert_eq!(streams.note(one, 768 * KIB..896 * KIB), Some(2432 * KIB..2944 * KIB));
        for number in 0..STREAMS_MAX as u64 {
            streams.note(Ino(10 + number), 0..1);
        }
        assert_eq!(streams.note(one, 896 * KIB..1024 * KIB), None, "forgotten");
        assert_eq!(streams.note(one, 0..u64::MAX), None, "no place behind it");
        assert_eq!(streams.note(one, u64::MAX..u64::MAX), None);
    }
}
