//! Damage that is planted is found, and repaired where there is one right answer.

use proptest::prelude::*;

use super::*;
use crate::layout::{GRANTS, LANE, LANES, MEMBERS, PAGE, RETIRED, TAGS};
use crate::tag::SLOT_BYTES;
use crate::tag_table::copies;

/// What `plant` does to a pool must be found; a repair must leave it sound, with no finding, and again change nothing.
/// The values that are lost by it are `lost`; all others must be what they were.
fn mends(what: &str, lost: &[&str], plant: impl FnOnce(&LyingMemory, &Pool)) -> PoolCheckReport {
    let memory = pool();
    let sound = open(&Arc::new(memory.kill()));
    plant(&memory, &sound);
    let found = checked(&memory);
    assert!(!found.is_sound() && found.opened, "{what}: {}", text(&found));
    let names: Vec<String> = lost.iter().map(ToString::to_string).collect();
    let report = repaired_losing(&memory, &names);
    assert!(report.is_sound(), "{what}: {}", text(&report));
    let after = checked(&memory);
    assert_eq!(after.findings, [], "{what}: {}", text(&after));
    assert_eq!(repaired(&memory).findings, [], "{what}: K4");
    let mut expected = values(&sound);
    for name in lost {
        expected.remove(*name).expect("it was there");
        assert!(text(&report).contains(&format!("tag {name:?} is lost")), "{what}: {}", text(&report));
    }
    let mended = open(&memory);
    assert!(values(&mended) == expected, "{what}: {:?}", values(&mended).keys());
    put(&mended, "afterwards", &vec![1; 3 << 20]);
    assert!(values(&mended)["afterwards"].is_some() && values(&mended).values().all(Option::is_some), "{what}: K3");
    report
}

fn flip(memory: &LyingMemory, at: u64, mask: u8) {
    let mut byte = [0];
    memory.load(at, &mut byte);
    memory.store(at, &[byte[0] ^ mask], Scheme::Nt);
}

fn page_of(pool: &Pool, name: &str) -> u64 {
    pool.tag(name).unwrap().extents[0].page
}

fn flip_mark(memory: &LyingMemory, page: u64) {
    flip(memory, bitmap_at(page / CHUNK_PAGES) + page % CHUNK_PAGES / 8, 1 << (page % 8));
}

/// K2: a named page that is not marked is marked, before anything could be given it.
#[test]
fn k2_unmarked_pages_are_marked() {
    for name in ["gap 0", "scattered", "value 3"] {
        let report = mends(name, &[], |memory, pool| flip_mark(memory, page_of(pool, name)));
        assert_eq!(report.findings[0].tag.as_deref(), Some(name));
    }
}

/// K2: a marked page that no structure names is freed.
#[test]
fn k2_leaked_pages_are_freed() {
    let report = mends("leak", &[], |memory, pool| {
        let page = page_of(pool, "value 5");
        (20..25).for_each(|step| flip_mark(memory, page + step));
    });
    assert!(report.findings[0].what.starts_with("5 pages (20480 bytes)"), "{}", text(&report));
    mends("stray", &[], |memory, _| flip_mark(memory, 7 * CHUNK_PAGES + 9));
}

/// K2: the kind of a chunk is what those who name its pages say, whatever the byte has become.
#[test]
fn k2_kinds_are_put_right() {
    for chunk in 0..8u64 {
        for kind in [0, 1, 2, 3, 4, 0x80, 0xff] {
            let mut byte = [0];
            pool().load(kind_at(chunk), &mut byte);
            let idle = byte[0] == 0 && kind == 2;
            if byte[0] == kind || idle {
                continue;
            }
            mends(&format!("chunk {chunk} of kind {} as {kind}", byte[0]), &[], |memory, _| {
                memory.store(kind_at(chunk), &[kind], Scheme::Nt);
            });
        }
    }
    assert!(is_meta(0) && is_meta(1));
}

/// T5: one damaged copy of a slot loses nothing, and is written again.
#[test]
fn t5_one_damaged_copy_of_a_slot_loses_nothing() {
    for copy in [0, 1] {
        for (at, name) in [(9, "super"), (4, "scattered"), (250, "value 3")] {
            let report = mends("copy", &[], |memory, pool| flip(memory, copies(slot_of(pool, name))[copy] + at, 1));
            assert!(text(&report).contains("one of the two copies of a tag's slot"), "{}", text(&report));
            let memory = pool();
            flip(&memory, copies(slot_of(&open(&Arc::new(memory.kill())), name))[copy] + at, 1);
            assert!(values(&open(&memory))[name].is_some(), "it opens and is there");
        }
    }
}

/// K5: an unreadable tag is given up only if the caller names it; nothing is freed before.
#[test]
fn k5_a_damaged_tag_is_not_given_up_unasked() {
    let memory = pool();
    let sound = open(&Arc::new(memory.kill()));
    let copies = copies(slot_of(&sound, "super"));
    copies.iter().for_each(|at| flip(&memory, at + 9, 1));
    for lose in [vec![], vec!["value 1".to_string(), "typo".to_string()]] {
        let report = repaired_losing(&memory, &lose);
        let message = text(&report).contains("[value 1] it is readable and was not given up");
        assert_eq!((message, report.unknown.len()), (!lose.is_empty(), lose.len() / 2), "{}", text(&report));
        assert!(!report.is_sound() && text(&report).contains("repair with --lose \"super\""), "{}", text(&report));
    }
    // Found by other means, it is there with all its space.
    copies.iter().for_each(|at| flip(&memory, at + 9, 1));
    assert!(checked(&memory).is_sound());
    assert!(values(&open(&memory)) == values(&sound));
}

/// K5: a slot whose copies are both damaged is cleared, its tag told as lost, its space free again, and the others
/// stay.
#[test]
fn k5_a_damaged_slot_is_cleared_and_told() {
    mends("slot", &["super"], |memory, pool| {
        copies(slot_of(pool, "super")).into_iter().for_each(|at| flip(memory, at + 9, 1));
    });
    mends("extents", &["scattered"], |memory, pool| {
        let overflow = pool.table().tags["scattered"].overflow[0].span().at;
        flip(memory, overflow + 40, 1);
    });
    let memory = pool();
    let at = slot_of(&open(&Arc::new(memory.kill())), "super");
    copies(at).into_iter().for_each(|at| memory.store(at, &[0xEE; SLOT_BYTES], Scheme::Nt));
    let report = repaired_losing(&memory, &[format!("{at:#x}")]);
    assert!(text(&report).contains("its name is not known") && report.is_sound(), "{}", text(&report));
}

fn slot_of(pool: &Pool, name: &str) -> u64 {
    pool.table().tags[name].slot
}

/// A broken link of the tag table is mended by the one page that can follow; every tag is there again.
#[test]
fn a_broken_chain_of_tag_pages_is_mended() {
    let last = open(&pool()).table().pages.clone();
    assert!(last.len() > 2, "{last:?}");
    for (index, page) in last.iter().enumerate() {
        for (at, mask) in [(0, 0xff), (4, 1), (9, 1), (15, 0x80)] {
            let report = mends(&format!("page {index}, byte {at}"), &[], |memory, _| flip(memory, page + at, mask));
            assert!(text(&report).contains("the tag table is broken"), "{}", text(&report));
        }
    }
}

/// Two pages could follow: nothing is guessed, and nothing is freed that may belong to what cannot be reached.
#[test]
fn k2_a_chain_with_two_ends_is_told_and_nothing_freed() {
    let memory = pool();
    let sound = open(&Arc::new(memory.kill()));
    let pages = sound.table().pages.clone();
    let twin = page_of(&sound, "value 5") + 30;
    flip(&memory, pages[1] + 4, 1);
    memory.store(twin * PAGE, &crate::tag_table::encode_header(0), Scheme::Nt);
    flip_mark(&memory, twin);
    let report = repaired(&memory);
    assert!(!report.is_sound() && text(&report).contains("they stay until that is repaired"), "{}", text(&report));
    flip(&memory, pages[1] + 4, 1);
    let mended = repaired(&memory);
    assert!(mended.is_sound(), "{}", text(&mended));
    assert!(values(&open(&memory)) == values(&sound));
}

/// Two tags that name the same pages: told with both names, and neither touched.
#[test]
fn k5_pages_of_two_tags_are_told() {
    let memory = pool();
    let sound = open(&Arc::new(memory.kill()));
    let thief = Tag { name: "thief".into(), generation: 1 << 40, ..(*sound.tag("value 2").unwrap()).clone() };
    let free = *sound.table().free_slots.last().unwrap();
    copies(free).into_iter().for_each(|at| memory.store(at, &thief.encode_slot(0), Scheme::Nt));
    for report in [checked(&memory), repaired(&memory)] {
        assert!(!report.is_sound());
        let message = text(&report);
        assert!(message.contains("tag \"value 2\"") && message.contains("tag \"thief\""), "{message}");
    }
    let (pool, _, damage) = Pool::open_damaged(memory, BOOT).unwrap();
    assert!(damage.is_empty() && pool.tag("thief").is_ok() && pool.tag("value 2").is_ok());
}

/// One name twice: neither is known to be right, so nothing is cleared or freed.
#[test]
fn k5_a_name_that_is_there_twice_is_told() {
    let memory = pool();
    let sound = open(&Arc::new(memory.kill()));
    let twin = Tag { generation: 1 << 40, extents: Vec::new(), ..(*sound.tag("value 2").unwrap()).clone() };
    let free = *sound.table().free_slots.last().unwrap();
    copies(free).into_iter().for_each(|at| memory.store(at, &twin.encode_slot(0), Scheme::Nt));
    let before = repaired(&memory);
    assert!(!before.is_sound() && text(&before).contains("a second tag called"), "{}", text(&before));
    assert_eq!(before.findings, checked(&memory).findings);
}

/// An owner that mends a tag by storing into it.
struct Scribbler;

impl TagOwner for Scribbler {
    fn kind(&self) -> TagKind {
        TagKind(77)
    }

    fn walk(&self, _: &Pool, _: &Tag, findings: &mut TagFindings<'_>) {
        findings.error("nothing in it is as it should be", None);
    }

    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> Result<()> {
        pool.memory().zero(tag.extents[0].span(), Scheme::Nt);
        findings.repaired("nothing in it was as it should be", None, "cleared");
        Ok(())
    }
}

/// K6: a tag that damage has brought back seems to hold pages of another, readable tag, as after a lost removal whose
/// pages were allocated again.
#[test]
fn k6_nothing_is_mended_in_pages_that_another_one_names() {
    let memory = pool();
    let pool = open(&memory);
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: 1 }];
    let new = NewTag { name: "ghost", kind: TagKind(77), size: 1, attributes: [0; 64], needs: &needs };
    pool.create_tag(&new, |_| Ok(())).unwrap();
    let (slot, whole) = (slot_of(&pool, "ghost"), pool.tag("value 2").unwrap());
    pool.close().unwrap();
    let expected = values(&open(&Arc::new(memory.kill())));
    let ghost = Tag { kind: TagKind(77), name: "ghost".into(), generation: 1 << 40, ..(*whole).clone() };
    copies(slot).into_iter().for_each(|at| memory.store(at, &ghost.encode_slot(0), Scheme::Nt));
    let mut owners = TagOwners::default();
    owners.register(Box::new(Scribbler));
    let report = repair(&(memory.clone() as Arc<dyn Memory>), &owners, &[], &mut quiet).unwrap();
    assert!(!report.is_sound(), "{}", text(&report));
    let message = text(&report);
    assert!(message.contains("are named by tag") && message.contains("[ghost] nothing in it is as"), "{message}");
    let (after, _, _) = Pool::open_damaged(memory, BOOT).unwrap();
    assert_eq!(values(&after)["value 2"], expected["value 2"]);
}

/// K5: what a value holds cannot be guessed: told, and left.
#[test]
fn k5_a_damaged_value_is_told() {
    let memory = pool();
    let sound = open(&Arc::new(memory.kill()));
    flip(&memory, page_of(&sound, "value 4") * PAGE + 77, 4);
    for report in [checked(&memory), repaired(&memory)] {
        let [finding] = &report.findings[..] else { panic!("{}", text(&report)) };
        assert_eq!((finding.tag.as_deref(), finding.severity), (Some("value 4"), Severity::Error));
    }
}

/// K5: where a log starts cannot be guessed: told, and left.
#[test]
fn k5_a_damaged_log_is_told() {
    let memory = pool();
    let pool = Arc::new(open(&memory));
    let log = crate::TagLog::create(pool.clone(), "journal", 8192).unwrap();
    log.append(b"a record").unwrap();
    drop(log);
    let head = pool.tag("journal").unwrap().extents[0].span().at;
    drop(pool);
    assert!(checked(&memory).is_sound());
    flip(&memory, head + 1, 1);
    for report in [checked(&memory), repaired(&memory)] {
        assert!(!report.is_sound() && text(&report).contains("the head of log \"journal\""), "{}", text(&report));
    }
}

#[test]
fn a_damaged_superblock_or_retired_word_is_written_anew() {
    for (slot, what) in SUPERBLOCKS
        .map(|at| (at + 40, "superblocks"))
        .into_iter()
        .chain(RETIRED.map(|at| (at, "copies of the retired word")))
    {
        let report = mends(what, &[], |memory, _| flip(memory, slot, 1));
        assert!(text(&report).contains(&format!("one of the two {what}")), "{}", text(&report));
    }
}

#[test]
fn a_damaged_grant_is_forgotten() {
    let report = mends("grant", &[], |memory, _| memory.store(GRANTS + 3 * 128, &[5; 128], Scheme::Nt));
    assert!(text(&report).contains("end the clients of this pool"), "{}", text(&report));
}

#[test]
fn a_damaged_member_is_forgotten() {
    let report = mends("member", &[], |memory, _| memory.store(MEMBERS + 128, &[5; 128], Scheme::Nt));
    assert!(text(&report).contains("attach it again"), "{}", text(&report));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes flipped anywhere in the tables: no panic, an end, and every tag that is there afterwards has its value.
    #[test]
    fn any_damage_of_the_tables_is_survived(
        flips in prop::collection::vec((0u8..7, any::<u64>(), 1u8..), 1..6),
    ) {
        let memory = pool();
        let sound = values(&open(&Arc::new(memory.kill())));
        let second = open(&Arc::new(memory.kill())).table().pages[1];
        for (area, offset, mask) in flips {
            let (start, len) = match area {
                0 => (0, 2 * PAGE + 8),
                1 => (TAGS, PAGE),
                2 => (second, PAGE),
                3 => (kind_at(0), 8),
                4 => (bitmap_at(0), 8 * 64),
                5 => (GRANTS, 64 * 128),
                _ => (MEMBERS, 32 * 128),
            };
            flip(&memory, start + offset % len, mask);
        }
        let found = checked(&memory);
        let report = repaired(&memory);
        prop_assert_eq!(found.opened, report.opened);
        if report.opened {
            let (after, _, _) = Pool::open_damaged(memory.clone(), BOOT).unwrap();
            for (name, value) in values(&after) {
                prop_assert!(sound.get(&name) == Some(&value), "{} after {}", name, text(&report));
            }
            drop(after);
            let again = repaired(&memory);
            prop_assert!(again.findings.iter().all(|finding| finding.repaired.is_none()), "{}", text(&again));
        }
    }
}

/// A transaction that a lane lost: told by lane and sequence; a repair applies all others, says so, and leaves the pool
/// sound.
#[test]
fn k5_a_damaged_lane_is_told_and_its_other_transactions_applied() {
    let memory = pool();
    let sound = open(&memory);
    let mut expected = values(&sound);
    (0..3u8).for_each(|index| put(&sound, &format!("late {index}"), &[index; 5000]));
    (0..3u8).for_each(|index| _ = expected.insert(format!("late {index}"), Some(vec![index; 5000])));
    let killed = Arc::new(memory.kill());
    let lane = (0..16).map(|lane| LANES + lane * LANE).find(|at| killed.load_word(at + 8) != 0).unwrap();
    flip(&killed, lane + 30, 1);
    let found = checked(&killed);
    assert!(!found.is_sound() && found.opened, "{}", text(&found));
    let report = repaired(&killed);
    let message = text(&report);
    assert!(report.is_sound() && message.contains("a committed transaction is lost: transaction "), "{message}");
    assert!(
        message.contains("before committed transaction")
            && message.contains("given up: all other transactions were applied"),
        "{message}"
    );
    assert_eq!(checked(&killed).findings, []);
    let mended = open(&killed);
    // A killed process leaves what it stored, so here nothing of the lost transaction is missing.
    assert!(values(&mended) == expected, "{:?}", values(&mended).keys());
}
