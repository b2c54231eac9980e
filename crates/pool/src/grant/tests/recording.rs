//! The grant table's bytes: whole or refused, and any number of pieces.

use proptest::prelude::*;

use super::super::slot::{GrantRecord, decode_slot};
use super::*;
use crate::layout::{GRANTS, SLOT};

#[test]
fn a_grant_of_any_number_of_pieces_is_read_back_and_gives_its_pages_back() {
    for count in [0, 1, 3, 4, 257, 258, 511] {
        let memory = formatted(Model::MAPPED);
        let (pool, process) = (opened(&memory, THIS_BOOT), ours());
        let tag = tag(&pool, "a", &[need(Zone::Normal, 2 * CHUNK)]).expect("tag");
        let free = pool.usage().free_bytes;
        let pieces = every_other_page(&tag, count);
        let granted = pool.grant(&GrantRequest { extents: &pieces, ..ask(&tag, &process) }).expect("grant");
        assert_accounted(&pool);
        drop(pool);
        let pool = opened(&Arc::new(memory.kill()), THIS_BOOT);
        assert_eq!(pool.grants().standing()[0].bytes, count as u64 * PAGE);
        assert!(pieces.iter().all(|piece| pool.grants().touch(*piece)));
        assert_accounted(&pool);
        pool.remove_tag(&tag).expect("remove");
        assert_held(&pool, &pieces);
        pool.grants().release(&pool, granted.id).expect("release");
        assert_eq!(pool.usage().free_bytes, free + 2 * CHUNK, "{count} pieces");
    }
}

#[test]
fn a_damaged_slot_is_told_and_the_pool_is_not_opened_over_it() {
    let memory = formatted(Model::MAPPED);
    let (pool, process) = (opened(&memory, THIS_BOOT), ours());
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    pool.grant(&ask(&tag, &process)).expect("grant");
    pool.close().expect("close");
    let slot = GRANTS;
    let damaged = Arc::new(memory.kill());
    damaged.store(slot + 16, &[0xff], Scheme::Flush);
    damaged.drain().expect("drained");
    let said = Pool::open(damaged.clone(), THIS_BOOT).expect_err("damaged").to_string();
    assert!(said.contains("grant slot") && said.contains(&format!("{slot:#x}")), "{said}");
    Pool::open_damaged(damaged.clone(), THIS_BOOT).expect("to repair it");
    let (_, damage) = Grants::claims(&*damaged, POOL_BYTES / PAGE);
    assert_eq!(damage.iter().map(|damage| damage.at).collect::<Vec<_>>(), [slot]);
}

/// Also where it seems as long as it should be (tags T4).
#[test]
fn t4_a_list_of_pieces_that_loops_is_refused() {
    let memory = formatted(Model::MAPPED);
    let (pool, process) = (opened(&memory, THIS_BOOT), ours());
    let tag = tag(&pool, "a", &[need(Zone::Normal, 2 * CHUNK)]).expect("tag");
    // What two pages are full of.
    pool.grant(&GrantRequest { extents: &every_other_page(&tag, 511), ..ask(&tag, &process) }).expect("grant");
    pool.close().expect("close");
    let looping = memory.kill();
    let first = looping.load_word(GRANTS + 64);
    let mut page = vec![0; PAGE as usize];
    looping.load(first, &mut page);
    page[8..16].copy_from_slice(&first.to_le_bytes());
    let crc = crc32fast::hash(&page[4..]);
    page[..4].copy_from_slice(&crc.to_le_bytes());
    looping.store(first, &page, Scheme::Flush);
    looping.drain().expect("drained");
    let (_, damage) = Grants::claims(&looping, POOL_BYTES / PAGE);
    assert_eq!(damage.iter().map(|damage| damage.at).collect::<Vec<_>>(), [GRANTS]);
}

fn record() -> GrantRecord {
    let extents = (0..5).map(|number| page_at((2000 + number * 3) * PAGE)).collect();
    let (id, rights, process) = (GrantId(9), GrantRights::Read, ours().identity());
    GrantRecord { id, rights, tag_generation: 4, process, extents }
}

#[test]
fn a_slot_holds_all_that_a_grant_is() {
    let whole = record();
    let decoded = decode_slot(&whole.encode(5 * PAGE), 0, 3000).expect("verifies").expect("in use");
    assert_eq!((decoded.overflow, decoded.extents), (5 * PAGE, 5));
    assert_eq!(decoded.record, GrantRecord { extents: whole.extents[..3].to_vec(), ..whole });
    assert!(decode_slot(&[0; SLOT_BYTES], 0, 3000).expect("free").is_none());
    assert!(decode_slot(&record().encode(0), 0, 2000).is_err(), "pages outside the pool");
    assert_eq!(SLOT_BYTES as u64, SLOT);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changed_byte_of_a_slot_is_noticed(at in 0..SLOT_BYTES, flip in 1u8..) {
        let mut bytes = record().encode(0);
        bytes[at] ^= flip;
        prop_assert!(decode_slot(&bytes, 0, 3000).is_err());
    }

    /// Hostile content with a checksum that fits is refused or read, never more.
    #[test]
    fn any_slot_that_verifies_is_survived(mut bytes in prop::collection::vec(any::<u8>(), SLOT_BYTES), small in any::<bool>()) {
        if small {
            bytes[5..8].fill(0);
            bytes[57..60].fill(0);
            bytes[60..64].fill(0);
        }
        let crc = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        let bytes: [u8; SLOT_BYTES] = bytes.try_into().expect("its size");
        if let Ok(Some(decoded)) = decode_slot(&bytes, 0, 3000) {
            prop_assert!(decoded.record.extents.iter().all(|extent| extent.end() <= 3000));
        }
    }
}
