//! R1, R2: what verifies, and what does not.

use super::*;

fn sealed() -> Vec<u8> {
    let mut draft = RecordDraft::default();
    draft.push(b"some payload");
    draft.seal(7, 3)
}

#[test]
fn a_sealed_record_parses_back() {
    let record = CheckedRecord::parse(7, &sealed()).expect("verifies");
    assert_eq!((record.sequence, record.payload.as_slice()), (3, b"some payload".as_slice()));
    assert_eq!(record.footprint(), sealed().len());
}

#[test]
fn a_composed_record_is_a_sealed_one() {
    let mut room = vec![0xff; 300];
    compose(&mut room, 7, 3, [], b"some payload");
    assert_eq!(room, sealed());
    compose(&mut room, 7, 3, [u64::from_le_bytes(*b"some pay")], b"load");
    assert_eq!(room, sealed());
}

#[test]
fn r1_any_missing_word_is_noticed() {
    let whole = sealed();
    for word in 0..whole.len() / 8 {
        let mut torn = whole.clone();
        torn[word * 8..word * 8 + 8].fill(0);
        let unchanged = torn == whole;
        assert_eq!(CheckedRecord::parse(7, &torn).is_some(), unchanged, "word {word}");
    }
}

#[test]
fn r2_a_record_of_another_log_is_refused() {
    assert_eq!(CheckedRecord::parse(8, &sealed()), None);
    assert_eq!(CheckedRecord::parse(7, &[0; 64]), None);
}

#[test]
fn hostile_lengths_are_refused() {
    let mut bytes = sealed();
    for len in [0, 49, u32::MAX] {
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        assert_eq!(CheckedRecord::parse(7, &bytes), None);
    }
    assert_eq!(CheckedRecord::parse(7, &[]), None);
}
