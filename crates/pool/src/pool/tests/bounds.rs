//! Numbers behind right checksums from which no pool can count on: a clear error, by opening and by check, and no
//! panic.

use ferrite_crash::{LyingMemory, Model};

use super::*;
use crate::bounds::{GENERATION_BOUND, SEQUENCE_BOUND, SERIAL_BOUND};
use crate::check::{self, TagOwners};
use crate::checked_record::RecordDraft;
use crate::checked_word::{NUMBER_MAX, salt, seal};
use crate::layout::{LANES, RETIRED, SUPERBLOCKS};
use crate::superblock::Superblock;
use crate::tests::support::{BOOT, new_pool, open};

/// A closed pool with a tag, to be changed.
fn pool() -> LyingMemory {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    create(&pool, "tag", &[need(Zone::Normal, PAGE)]).unwrap();
    pool.close().unwrap();
    LyingMemory::from_image(&memory.snapshot(), Model::MAPPED)
}

/// What opening and check say of `memory`; neither wrote to it.
fn refused(memory: LyingMemory) -> String {
    let before = memory.snapshot();
    let memory: Arc<LyingMemory> = Arc::new(memory);
    let said = Pool::open(memory.clone(), BOOT).expect_err("it was opened").to_string();
    let report = check::check(&(memory.clone() as Arc<dyn Memory>), &TagOwners::default(), &mut |_| ());
    let found = report.findings.iter().any(|finding| finding.what.contains("which no pool counts up to"));
    assert!(!report.is_sound() && found, "{report:?}");
    assert!(memory.snapshot() == before, "a refused pool was written to");
    assert!(said.contains("which no pool counts up to"), "{said}");
    said
}

/// A record of a transaction that changes nothing, with this sequence.
fn with_record(sequence: u64) -> LyingMemory {
    let memory = pool();
    let mut draft = RecordDraft::default();
    [1 << 56 | 0x3000_u64, 8, 0].iter().for_each(|word| draft.push(&word.to_le_bytes()));
    memory.store(LANES, &draft.seal(salt(&crate::tests::support::format().uuid), sequence), Scheme::Nt);
    memory.fence();
    memory
}

/// Y3: the sequence that passed a check and made the next transaction panic, and every other one from the bound on.
#[test]
fn y3_a_record_behind_which_no_sequence_is_left_is_refused() {
    for sequence in [SEQUENCE_BOUND - 1, SEQUENCE_BOUND, NUMBER_MAX - 2, NUMBER_MAX - 1] {
        let said = refused(with_record(sequence));
        assert!(said.contains(&format!("the sequence of a transaction, {sequence},")), "{said}");
    }
    let last = Arc::new(with_record(SEQUENCE_BOUND - 2));
    let pool = open(&last);
    create(&pool, "next", &[need(Zone::Normal, PAGE)]).unwrap();
    pool.close().unwrap();
}

/// Y3: the retired word too.
#[test]
fn y3_a_retired_word_behind_which_no_sequence_is_left_is_refused() {
    for number in [SEQUENCE_BOUND, NUMBER_MAX - 1] {
        let memory = pool();
        let word = seal(salt(&crate::tests::support::format().uuid), number);
        RETIRED.iter().for_each(|at| memory.store_word(*at, word));
        let said = refused(memory);
        assert!(said.contains("the retired word"), "{said}");
    }
}

#[test]
fn a_superblock_behind_which_no_generation_is_left_is_refused() {
    for generation in [GENERATION_BOUND, u64::from(u32::MAX) - 3] {
        let memory = pool();
        let found = Superblock::read(&memory).unwrap();
        for generation in [generation, generation + 1] {
            let bytes = Superblock { generation, ..found.clone() }.encode();
            memory.store(SUPERBLOCKS[(generation % 2) as usize], &bytes, Scheme::Nt);
        }
        let said = refused(memory);
        assert!(said.contains("the superblock's generation"), "{said}");
    }
}

/// T3: a tag may have the last generation; the next tag is refused, and nothing else is.
#[test]
fn t3_no_tag_gets_a_generation_that_its_slot_cannot_hold() {
    let memory = Arc::new(pool());
    let tag = open(&memory).tag("tag").unwrap();
    let last = Tag { generation: SERIAL_BOUND - 1, ..(*tag).clone() }.encode_slot(0);
    let first = crate::layout::TAGS + 64;
    [first, crate::tag_table::copies(first)[1]].iter().for_each(|at| memory.store(*at, &last, Scheme::Nt));
    let pool = open(&memory);
    let said = create(&pool, "next", &[need(Zone::Normal, PAGE)]).unwrap_err().to_string();
    assert!(said.contains("the next generation of a tag"), "{said}");
    pool.remove_tag(&pool.tag("tag").unwrap()).unwrap();
    pool.close().unwrap();
}
