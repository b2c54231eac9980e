//! docs/format.md against the code, as far as no one module can say it.

use super::*;
use crate::checked_record::{CheckedRecord, HEADER, RecordDraft};
use crate::layout::{
    GRANT_SLOTS, GRANTS, LANE, LANE_COUNT, LANES, MEMBER_SLOTS, MEMBERS, REGION_CHUNKS, RETIRED, SLOT, SUPERBLOCKS,
    TAGS, bitmap_at, kind_at,
};
use crate::tests::format_page::{FieldRow, table};

fn row(at: u64, bytes: u64, field: &str) -> FieldRow {
    (at, bytes, field.into())
}

#[test]
fn the_places_are_as_documented() {
    let expected = [
        row(SUPERBLOCKS[0], PAGE, "superblock_a"),
        row(SUPERBLOCKS[1], PAGE, "superblock_b"),
        row(RETIRED[0], 8, "retired"),
        row(MEMBERS, MEMBER_SLOTS * SLOT, "members"),
        row(GRANTS, GRANT_SLOTS * SLOT, "grants"),
        row(RETIRED[1], 8, "retired_copy"),
        row(TAGS, PAGE, "tags"),
        row(LANES, LANE_COUNT as u64 * LANE, "lanes"),
        row(kind_at(0), REGION_CHUNKS, "kinds"),
        row(bitmap_at(0), REGION_CHUNKS * 64, "bitmaps"),
    ];
    assert_eq!(table("## Pool"), expected);
    let region = REGION_CHUNKS * CHUNK;
    assert_eq!(kind_at(REGION_CHUNKS + 3), region + 3);
    assert_eq!(bitmap_at(REGION_CHUNKS + 3), region + bitmap_at(3) - CHUNK);
}

/// The fields of a sealed record lie where the page says.
#[test]
fn a_record_is_as_documented() {
    let mut draft = RecordDraft::default();
    draft.push(&[0xab; 20]);
    let bytes = draft.seal(5, 0x0102_0304_0506_0708);
    let rows = table("### Record");
    let names: Vec<&str> = rows.iter().map(|row| row.2.as_str()).collect();
    assert_eq!(names, ["crc", "len", "sequence", "payload"]);
    let number = |(at, len, _): &FieldRow| {
        bytes[*at as usize..][..*len as usize].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    assert_eq!((number(&rows[1]), number(&rows[2])), (20, 0x0102_0304_0506_0708));
    let mut hasher = crc32fast::Hasher::new_with_initial(5);
    hasher.update(&bytes[4..HEADER + 20]);
    assert_eq!(number(&rows[0]), u64::from(hasher.finalize()));
    assert_eq!(&bytes[rows[3].0 as usize..][..20], [0xab; 20]);
    assert!(bytes[HEADER + 20..].iter().all(|byte| *byte == 0) && bytes.len() == 64);
}

/// What a transaction writes is a list of the operations of the page.
#[test]
fn operations_are_as_documented() {
    let memory = crate::tests::support::new_pool(ferrite_crash::Model::MAPPED);
    let pool = crate::tests::support::open(&memory);
    create(&pool, "pages", &[need(Zone::Normal, 150 * PAGE)]).unwrap();
    remove(&pool, "pages").unwrap();
    let salt = u32::from_le_bytes(pool.superblock().uuid[..4].try_into().unwrap());
    let codes = table("### Transaction");
    let mut met = std::collections::BTreeSet::new();
    let mut at = (0..LANE_COUNT as u64).map(|lane| LANES + lane * LANE).find(|at| memory.load_word(*at) != 0).unwrap();
    loop {
        let mut bytes = vec![0; 4096];
        memory.load(at, &mut bytes);
        let Some(record) = CheckedRecord::parse(salt, &bytes) else { break };
        at += record.footprint() as u64;
        let mut rest = &record.payload[..];
        while !rest.is_empty() {
            let (_, head, name) = codes.iter().find(|row| row.0 == u64::from(rest[7])).expect("a documented code");
            let detail = u64::from_le_bytes(rest[8..16].try_into().unwrap());
            met.insert(name.clone());
            rest = &rest[*head as usize + if name == "write" { detail as usize } else { 0 }..];
        }
    }
    assert_eq!(met.into_iter().collect::<Vec<_>>(), ["clear", "fill", "set", "write"]);
}
