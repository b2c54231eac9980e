//! Memory that is no pool, or no good one: one clear line, and not a byte is written.

use ferrite_crash::{LyingMemory, Model};

use super::*;
use crate::checked_record::RecordDraft;
use crate::checked_word::salt;
use crate::layout::{LANES, RETIRED, TAGS, kind_at};
use crate::redo::Redo;
use crate::tag::SLOT_BYTES;
use crate::tag_table::encode_header;
use crate::tests::support::{BOOT, POOL_BYTES, new_pool, open};

const FIRST_SLOT: u64 = TAGS + 64;

/// What opening says; nothing was written.
fn refused(memory: LyingMemory) -> String {
    let before = memory.snapshot();
    let memory = Arc::new(memory);
    let error = Pool::open(memory.clone(), BOOT).expect_err("it was opened").to_string();
    assert!(memory.snapshot() == before, "a refused pool was written to: {error}");
    assert!(!error.contains('\n'), "{error}");
    error
}

/// A pool with a tag of many extents, a chained page of slots and a record to replay.
fn used() -> Vec<u8> {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    for number in 0..9 {
        create(&pool, &format!("tag {number}"), &[need(Zone::Normal, PAGE); 11]).unwrap();
    }
    memory.snapshot()
}

fn with(image: &[u8], at: u64, bytes: &[u8]) -> LyingMemory {
    let mut image = image.to_vec();
    image[at as usize..][..bytes.len()].copy_from_slice(bytes);
    LyingMemory::from_image(&image, Model::MAPPED)
}

/// `image` with `bytes` at `offset` of the first tag slot and of its copy.
fn with_slot(image: &[u8], offset: u64, bytes: &[u8]) -> LyingMemory {
    let memory = with(image, FIRST_SLOT + offset, bytes);
    memory.store(crate::tag_table::copies(FIRST_SLOT)[1] + offset, bytes, Scheme::Nt);
    LyingMemory::from_image(&memory.snapshot(), Model::MAPPED)
}

#[test]
fn memory_that_is_no_pool() {
    let none = |why: &str| {
        format!(
            "not a Ferrite pool: {why}; `ferrite pool create` makes one, `ferrite pool restore` restores one from an image"
        )
    };
    for (size, shown) in [(0, "0 B"), (1, "1 B"), (4096, "4 KiB"), (8 << 20 >> 1, "4 MiB")] {
        let message = refused(LyingMemory::new(size, Model::MAPPED));
        assert_eq!(message, none(&format!("it has {shown}, the smallest pool has 8 MiB")));
    }
    assert_eq!(refused(LyingMemory::new(POOL_BYTES, Model::MAPPED)), none("the magic number is missing"));
    let noise: Vec<u8> = (0..POOL_BYTES).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    assert_eq!(refused(LyingMemory::from_image(&noise, Model::MAPPED)), none("the magic number is missing"));
    let mut ext4 = vec![0; POOL_BYTES as usize];
    ext4[1080..1082].copy_from_slice(&[0x53, 0xef]);
    assert_eq!(refused(LyingMemory::from_image(&ext4, Model::MAPPED)), none("the magic number is missing"));
}

#[test]
fn a_truncated_pool() {
    let image = used();
    let message = refused(LyingMemory::from_image(&image[..8 << 20], Model::MAPPED));
    let expected = "the pool was made with 12 MiB but the file has only 8 MiB: it was truncated; restore a backup";
    assert_eq!(message, expected);
}

fn corrupt(what: &str, at: u64) -> String {
    format!("{what} at byte {at:#x} of the pool is corrupt: run `ferrite pool check`, or restore a backup")
}

#[test]
fn damaged_tables_are_told_by_name_and_place() {
    let image = used();
    let chunk = 2;
    let cases: [(u64, &[u8], String); 5] = [
        (TAGS, &[0; 8], corrupt("the header of a tag page", TAGS)),
        (TAGS + 8, &[1], corrupt("the header of a tag page", TAGS)),
        (kind_at(chunk), &[7], corrupt("the kind of chunk 2", kind_at(chunk))),
        (kind_at(chunk), &[1], corrupt("the kind of chunk 2", kind_at(chunk))),
        (kind_at(0), &[0], corrupt("the kind of chunk 0", kind_at(0))),
    ];
    for (at, bytes, expected) in cases {
        assert_eq!(refused(with(&closed(&image), at, bytes)), expected);
    }
    for (offset, bytes) in [(100, &[0xff][..]), (0, &[0; 4])] {
        let message = refused(with_slot(&closed(&image), offset, bytes));
        assert_eq!(message, corrupt("the tag slot (checksum)", FIRST_SLOT));
    }
    let message = refused(with(&closed(&image), FIRST_SLOT, &[0; SLOT_BYTES]));
    assert_eq!(message, corrupt("the tag slot (which differs from its copy)", FIRST_SLOT));
}

/// The same pool closed in order, so that nothing is replayed over a planted damage.
fn closed(image: &[u8]) -> Vec<u8> {
    let memory = Arc::new(LyingMemory::from_image(image, Model::MAPPED));
    open(&memory).close().unwrap();
    memory.snapshot()
}

/// The allocator has no checksum: what a tag uses and it has as free must be found before it is given out.
#[test]
fn a1_an_allocator_that_forgot_a_page_is_refused() {
    let message = refused(with(&closed(&used()), crate::layout::bitmap_at(2), &[0]));
    assert!(
        message.starts_with("the allocator's table, by which the space of \"tag 0\" from page 1024 on is free"),
        "{message}"
    );
}

#[test]
fn damage_met_while_there_is_something_to_replay_leaves_the_pool_untouched() {
    let image = used();
    assert!(
        Pool::open(Arc::new(LyingMemory::from_image(&image, Model::MAPPED)), BOOT).unwrap().1.replay.transactions > 0
    );
    let message = refused(with(&image, kind_at(1), &[0]));
    assert_eq!(message, corrupt("the kind of chunk 1", kind_at(1)));
}

/// A record that verifies and that no transaction writes: one that reaches outside, or into the superblock.
#[test]
fn y1_hostile_records_are_refused_whole() {
    let image = closed(&used());
    let salt = salt(&crate::tests::support::format().uuid);
    let sequence = Redo::read(&LyingMemory::from_image(&image, Model::MAPPED), salt).unwrap().next();
    let operations: [[u64; 2]; 10] = [
        [1 << 56 | 0x1000, 8],
        [1 << 56 | LANES, 8],
        [2 << 56 | RETIRED[0], 1],
        [2 << 56 | RETIRED[1], 1],
        [4 << 56 | CHUNK, 1 << 40],
        [4 << 56 | CHUNK, (1 << 56) - 1],
        [3 << 56 | 0x3001, 1],
        [1 << 56 | 0x3000, u64::MAX],
        [9 << 56 | 0x3000, 8],
        [2 << 56 | (POOL_BYTES / 8 * 8), 1],
    ];
    for words in operations {
        let mut draft = RecordDraft::default();
        for word in [2 << 56 | 0x3000, 1].into_iter().chain(words) {
            draft.push(&word.to_le_bytes());
        }
        if words[0] >> 56 == 1 && words[1] == 8 {
            draft.push(&[0; 8]);
        }
        let message = refused(with(&image, LANES, &draft.seal(salt, sequence)));
        assert_eq!(
            message,
            corrupt("a committed transaction that this program cannot have written", LANES),
            "{words:x?}"
        );
    }
}

/// T4: chains that loop end.
#[test]
fn t4_chains_that_loop_are_refused() {
    let image = closed(&used());
    let message = refused(with(&image, TAGS, &encode_header(TAGS)));
    assert_eq!(message, corrupt("the header of a tag page", TAGS));
    let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
    let tag = open(&memory).tag("tag 0").unwrap();
    let place = open(&memory).table().tags["tag 0"].overflow[0].span().at;
    let long = Tag { extents: tag.extents.iter().copied().cycle().take(2000).collect(), ..(*tag).clone() };
    let mut looping = image.clone();
    let page = &crate::tag::encode_overflow(long.rest(), &[place; 9])[0];
    looping[place as usize..][..page.len()].copy_from_slice(page);
    let message = refused(with_slot(&looping, 0, &long.encode_slot(place)));
    assert_eq!(message, corrupt("the list of extents of tag \"tag 0\"", FIRST_SLOT));
}

#[test]
fn hostile_slots_with_right_checksums_are_refused() {
    let image = closed(&used());
    let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
    let whole = open(&memory).tag("tag 0").unwrap();
    let tag = Tag { extents: whole.extents[..3].to_vec(), ..(*whole).clone() };
    let outside = Extent { page: 0, pages: 1, role: Role::DATA, zone: Zone::Normal };
    let cases: [(Tag, &str); 5] = [
        (Tag { generation: u64::MAX, ..tag.clone() }, "the tag slot (generation)"),
        (Tag { name: "a\nb".into(), ..tag.clone() }, "the tag slot (name)"),
        (Tag { name: "tag 1".into(), ..tag.clone() }, "a second tag called \"tag 1\""),
        (Tag { extents: vec![Extent { page: u64::MAX, ..outside }], ..tag.clone() }, "the tag slot (extent)"),
        (
            Tag { extents: vec![outside], ..tag.clone() },
            "the allocator's table, by which the space of \"tag 0\" from page 0",
        ),
    ];
    for (tag, expected) in cases {
        let bytes: [u8; SLOT_BYTES] = tag.encode_slot(0);
        let message = refused(with_slot(&image, 0, &bytes));
        assert!(message.starts_with(expected) && message.ends_with("restore a backup"), "{message}");
    }
}

/// Two tags with one page: neither may write.
#[test]
fn t1_space_with_two_owners_is_refused() {
    let image = closed(&used());
    let memory = Arc::new(LyingMemory::from_image(&image, Model::MAPPED));
    let pool = open(&memory);
    let (one, two) = (pool.tag("tag 0").unwrap(), pool.tag("tag 1").unwrap());
    let thief = Tag { extents: two.extents[..3].to_vec(), ..(*one).clone() };
    let message = refused(with_slot(&image, 0, &thief.encode_slot(0)));
    assert!(
        message.contains("\"tag 0\"") && message.contains("\"tag 1\"") && message.contains("uses too"),
        "{message}"
    );
}

/// Lane L7: a damaged record that others follow is not skipped in silence, nor are those behind it.
#[test]
fn l7_a_lane_with_a_damaged_record_is_refused() {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    for name in ["one", "two", "three"] {
        create(&pool, name, &[need(Zone::Normal, PAGE)]).unwrap();
    }
    let image = memory.snapshot();
    let lane = (0..16).map(|lane| LANES + lane * crate::layout::LANE).find(|at| image[*at as usize + 4] != 0).unwrap();
    let message = refused(with(&image, lane + 40, &[0xA5]));
    let number = (lane - LANES) / crate::layout::LANE;
    let expected = format!("transaction 1 in lane {number}, before committed transaction 2,");
    assert_eq!(message, corrupt(&expected, lane));
}
