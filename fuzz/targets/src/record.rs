//! Log records, one and a lane of them, as found and with valid checksums.

use ferrite_pool::checked_record::{CheckedRecord, HEADER, RecordDraft, footprint, header};
use ferrite_pool::decode::committed;

const SALT: u32 = 7;

pub fn target(data: &[u8]) {
    check(data);
    check(&repaired(data));
}

fn check(data: &[u8]) {
    if let Some(record) = CheckedRecord::parse(SALT, data) {
        assert!(!record.payload.is_empty() && record.sequence > 0, "zeroed memory was taken for a record");
        assert_eq!(
            sealed(&record.payload, record.sequence)[..HEADER],
            data[..HEADER],
            "a record cannot be written back"
        );
    }
    let found = committed(data, SALT, 2);
    let records = found.records;
    assert!(records.iter().all(|record| record.sequence >= 2), "a retired record would be replayed");
    assert!(records.windows(2).all(|pair| pair[0].sequence < pair[1].sequence), "replayed out of order");
    let taken: usize = records.iter().map(|record| record.payload.len() + HEADER).sum();
    assert!(taken <= data.len(), "records beyond the lane's end");
    assert!(found.holes.iter().all(|hole| hole.at < data.len() as u64), "a hole beyond the lane's end");
    assert!(found.holes.len() <= records.len(), "a hole that nothing follows");
}

fn sealed(payload: &[u8], sequence: u64) -> Vec<u8> {
    let mut draft = RecordDraft::default();
    draft.push(payload);
    draft.seal(SALT, sequence)
}

/// Returns the lane with each record's checksum corrected, as far as their lengths lead.
fn repaired(data: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at) = (data.to_vec(), 0);
    while let Some((_, len, _)) = bytes.get(at..).and_then(header) {
        let Some(body) = bytes.get(at + 4..at + HEADER + len) else { break };
        let mut hasher = crc32fast::Hasher::new_with_initial(SALT);
        hasher.update(body);
        crate::put(&mut bytes, at, &hasher.finalize().to_le_bytes());
        at += footprint(len);
    }
    bytes
}

pub fn seeds() -> Vec<Vec<u8>> {
    let one = sealed(b"one record", 3);
    let lane = [sealed(&[1; 40], 2), sealed(&[2; 200], 4), sealed(&[3], 5), vec![0; 64]].concat();
    vec![one, lane]
}

#[cfg(test)]
mod tests;
