//! A checksummed record, the unit of lanes and logs. One non-temporal copy and one fence make it durable.
//!
//! ```text
//! 0  crc      u32   CRC-32 of everything below, started from the log's salt
//! 4  len      u32   bytes of payload, at least 1
//! 8  sequence u64   at least 1
//! 16 payload        then zeros up to a multiple of 64
//! ```
//!
//! - R1. A record that did not arrive whole does not verify, so no second fence is needed to commit it.
//! - R2. Records of another log, or of an earlier life of this one, do not verify or have an older sequence.

use ferrite_memory::{crc32, crc32_of_words};

/// Bytes before the payload.
pub const HEADER: usize = 16;
/// Byte offset of the sequence in a record.
pub const SEQUENCE_AT: u64 = 8;
/// Records start and end at multiples of this, so that two never share a line.
pub const ALIGN: usize = 64;

/// Bytes that few records exceed, allocated at once.
const USUAL_BYTES: usize = 1024;

/// Returns the bytes that a record with `payload_bytes` of payload takes.
pub const fn footprint(payload_bytes: usize) -> usize {
    (HEADER + payload_bytes).next_multiple_of(ALIGN)
}

/// A record being built: room for the header, then the payload so far.
#[derive(Debug)]
pub struct RecordDraft(Vec<u8>);

impl Default for RecordDraft {
    fn default() -> Self {
        let mut record = Vec::with_capacity(USUAL_BYTES);
        record.resize(HEADER, 0);
        Self(record)
    }
}

impl RecordDraft {
    /// Appends `bytes` to the payload.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the bytes of the payload so far.
    pub fn payload_bytes(&self) -> usize {
        self.0.len() - HEADER
    }

    /// Returns the whole record with header and padding, ready to be stored.
    pub fn seal(mut self, salt: u32, sequence: u64) -> Vec<u8> {
        seal(&mut self.0, salt, sequence);
        self.0
    }
}

/// Fills in the header and the padding of `record`, which has room for the header and then the payload.
pub fn seal(record: &mut Vec<u8>, salt: u32, sequence: u64) {
    assert!(record.len() > HEADER && sequence > 0, "an empty record would look like zeroed memory");
    let len = record.len() - HEADER;
    record[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32(salt, &record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
    record.resize(footprint(len), 0);
}

/// Builds the record of `words` and `payload` in `record`, whose previous content is replaced.
#[inline(always)]
pub fn compose<const WORDS: usize>(
    record: &mut Vec<u8>,
    salt: u32,
    sequence: u64,
    words: [u64; WORDS],
    payload: &[u8],
) {
    let len = 8 * WORDS + payload.len();
    assert!(len > 0 && sequence > 0, "an empty record would look like zeroed memory");
    let whole = footprint(len);
    if record.len() != whole {
        record.clear();
        record.resize(whole, 0);
    }
    // Zeroing the whole last line is faster than computing where the padding starts.
    if let Some(last) = record.last_chunk_mut::<ALIGN>() {
        *last = [0; ALIGN];
    }
    let (header, rest) = record.split_at_mut(HEADER);
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    let (first, rest) = rest.split_at_mut(8 * WORDS);
    for (place, word) in first.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    rest[..payload.len()].copy_from_slice(payload);
    let crc = crc32_of_words(salt, (len as u32, sequence), words, payload);
    record[..8].copy_from_slice(&(u64::from(crc) | (len as u64) << 32).to_le_bytes());
}

/// A record that verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRecord {
    /// Its sequence number.
    pub sequence: u64,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl CheckedRecord {
    /// Returns the record at the start of `bytes` if it verifies (R1, R2). `bytes` may be anything.
    pub fn parse(salt: u32, bytes: &[u8]) -> Option<Self> {
        let (crc, len, sequence) = header(bytes)?;
        let body = bytes.get(4..HEADER + len)?;
        (crc32(salt, body) == crc).then(|| Self { sequence, payload: body[HEADER - 4..].to_vec() })
    }

    /// Returns the bytes that the record takes in its log.
    pub fn footprint(&self) -> usize {
        footprint(self.payload.len())
    }
}

/// Returns the checksum, the payload length and the sequence of the header at the start of `bytes`, or `None` if no
/// header is there.
pub fn header(bytes: &[u8]) -> Option<(u32, usize, u64)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let sequence = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let (crc, len) = (word(0)?, word(4)? as usize);
    (len > 0 && sequence > 0).then_some((crc, len, sequence))
}

#[cfg(test)]
mod tests;
