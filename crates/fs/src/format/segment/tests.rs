use super::*;

const SALT: SegmentSalt = SegmentSalt { pool: [7; 16], tag: 9 };

fn summary(count: u64) -> SegmentSummary {
    let entry = |page| SegmentEntry { ino: 3, page, crc: page as u32 * 77 };
    SegmentSummary { segment: SegmentNo(5), sequence: 11, entries: (0..count).map(entry).collect() }
}

#[test]
fn a_summary_is_read_as_it_was_written() {
    for count in [0, 1, SEGMENT_PAGES] {
        let summary = summary(count);
        assert_eq!(SegmentSummary::decode(&summary.encode(&SALT), &SALT), Some(summary));
    }
}

/// A segment of another file system, a torn one and zeros are no summaries.
#[test]
fn no_other_block_is_taken_for_a_summary() {
    let block = summary(4).encode(&SALT);
    assert_eq!(SegmentSummary::decode(&block, &SegmentSalt { tag: 8, ..SALT }), None);
    assert_eq!(SegmentSummary::decode(&block, &SegmentSalt { pool: [6; 16], ..SALT }), None);
    assert_eq!(SegmentSummary::decode(&[0; PAGE as usize], &SALT), None);
    for at in 0..block.len() {
        let mut torn = block;
        torn[at] ^= 1;
        assert_eq!(SegmentSummary::decode(&torn, &SALT), None, "byte {at}");
    }
}

#[test]
fn slots_are_blocks_behind_the_summary() {
    let slot = SegmentNo(5).slot(SEGMENT_PAGES - 1);
    assert_eq!((slot.segment(), slot.block()), (SegmentNo(5), SEGMENT_BLOCKS - 1));
    assert_eq!(SegmentNo(5).slot(0).block(), 1);
}
