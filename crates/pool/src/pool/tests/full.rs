//! A pool without room, and requests that cannot be met: nothing changes.

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::ByteCount;

use super::*;
use crate::Caller;
use crate::PidFd;
use crate::grant::GrantRequest;
use crate::grant::GrantRights;
use crate::grant::Process;
use crate::layout::POOL_BYTES_MIN;
use crate::tests::support::BOOT;
use crate::tests::support::account;
use crate::tests::support::format;
use crate::tests::support::new_pool;
use crate::tests::support::open;

#[test]
fn a_request_that_does_not_fit_is_told_and_changes_nothing() {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    create(&pool, "most", &[need(Zone::Super, 2 * CHUNK), need(Zone::Normal, 3 * PAGE)]).unwrap();
    let (before, free) = (shot(&pool), pool.usage());
    for needs in [
        vec![need(Zone::Super, 2 * CHUNK)],
        vec![need(Zone::Normal, CHUNK), need(Zone::Super, CHUNK)],
        vec![need(Zone::Normal, u64::MAX), need(Zone::Super, u64::MAX)],
        vec![need(Zone::Normal, PAGE), need(Zone::Normal, 2 * CHUNK)],
    ] {
        let error = create(&pool, "too much", &needs).unwrap_err();
        let Error::Full { free_bytes, .. } = error else { panic!("{error}") };
        assert!(free_bytes <= free.free_bytes, "{error}");
        assert_eq!((shot(&pool), pool.usage()), (before.clone(), free), "{error}");
    }
    let error = change(&pool, "most", &[need(Zone::Super, 9 * CHUNK)]).unwrap_err();
    let said = error.to_string();
    let start = format!("the pool is full: 18 MiB needed, {} free; ", ByteCount(free.free_bytes));
    assert!(said.starts_with(&start) && said.contains("`ferrite pool grow`"), "{said}");
    assert_eq!(shot(&pool), before);
    let snapshot = shot(&pool);
    drop(pool);
    let pool = open(&memory);
    account(&pool).unwrap();
    assert_eq!(shot(&pool), snapshot);
}

/// Tags are made until nothing is left, in every page and slot; then removed, and all space is back.
#[test]
fn a_pool_is_filled_to_its_last_page_and_emptied() {
    let pool = open(&new_pool(Model::MAPPED));
    let mut names = Vec::new();
    let error = loop {
        let name = format!("tag {}", names.len());
        match create(&pool, &name, &[need(Zone::Normal, 29 * PAGE)]) {
            Ok(_) => names.push(name),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert!(pool.usage().free_bytes < 30 * PAGE, "{:?}", pool.usage());
    account(&pool).unwrap();
    names.iter().for_each(|name| remove(&pool, name).unwrap());
    account(&pool).unwrap();
    let table_pages = pool.own_extents().len() as u64;
    assert_eq!(pool.usage().normal_bytes, table_pages * PAGE, "only pages of the tag table are left");
    // One page is for the list of extents.
    create(&pool, "all", &[need(Zone::Normal, pool.usage().free_bytes - PAGE)]).unwrap();
}

/// A transaction that would be too long is refused before anything is written, and its space is free again.
#[test]
fn a_transaction_beyond_the_limit_changes_nothing() {
    let pool = open(&new_pool(Model::MAPPED));
    let free = pool.usage();
    let mut transaction = pool.transaction();
    let taken = transaction.take(&[need(Zone::Normal, PAGE)]).unwrap();
    (0..5).for_each(|_| transaction.write(taken[0].span().at, &[1; 8192][..4096]));
    (0..5).for_each(|_| transaction.write(taken[0].span().at, &[1; 4096]));
    let error = transaction.commit().unwrap_err();
    assert!(matches!(error, Error::Limit(_)), "{error}");
    assert_eq!(pool.usage(), free);
    create(&pool, "goes on", &[]).unwrap();
}

/// One transaction marks gigabytes of the normal zone: runs are marked as runs.
#[test]
fn a_large_tag_of_the_normal_zone_fits_one_transaction() {
    let memory = Arc::new(LyingMemory::new(1200 * CHUNK, Model::MAPPED));
    Pool::create(&*memory, &format()).unwrap();
    let pool = open(&memory);
    let new = NewTag {
        name: "2 GiB",
        kind: TagKind::BYTES,
        size: 0,
        attributes: [0; 64],
        needs: &[need(Zone::Normal, 1100 * CHUNK + PAGE)],
    };
    pool.create_tag(&new, |_| Ok(())).unwrap();
    account(&open(&memory)).unwrap();
}

/// The list of the extents that it keeps lies in what it gives up.
#[test]
fn t6_a_tag_of_many_extents_gives_space_to_a_full_pool() {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    let wide = fill_up(&pool).unwrap();
    let full = (pool.usage(), shot(&pool));
    let mut transaction = pool.transaction();
    let mut dropped = wide.extents.clone();
    assert_eq!(transaction.take_of(&mut dropped, 2).unwrap().len(), 2);
    transaction.free(&dropped);
    drop(transaction);
    assert_eq!((pool.usage(), shot(&pool)), full, "nothing was committed");
    account(&pool).unwrap();
    for free in [512, 1024] {
        give(&pool, "wide").unwrap();
        assert_eq!(pool.usage().free_bytes, free * PAGE);
        account(&pool).unwrap();
    }
    assert_eq!(pool.tag("wide").unwrap().extents, wide.extents[..10]);
    let given = shot(&pool);
    drop(pool);
    let pool = open(&memory);
    account(&pool).unwrap();
    assert_eq!(shot(&pool), given);
    create(&pool, "all", &[need(Zone::Normal, 1024 * PAGE)]).unwrap();
}

/// No record has room for its list, and for part of it neither.
#[test]
fn t6_a_tag_of_very_many_extents_gives_space_to_a_full_pool() {
    let memory = Arc::new(LyingMemory::new(12 * CHUNK, Model::MAPPED));
    Pool::create(&*memory, &format()).unwrap();
    let pool = open(&memory);
    let mut needs = vec![need(Zone::Normal, PAGE); 2100];
    needs.push(SpaceNeed { role: Role::MAP, zone: Zone::Super, bytes: 2 * CHUNK });
    create(&pool, "wide", &needs).unwrap();
    create(&pool, "rest", &[need(Zone::Normal, pool.usage().free_bytes)]).unwrap();
    for free in [512, 1024] {
        give(&pool, "wide").unwrap();
        assert_eq!(pool.usage().free_bytes, free * PAGE);
        account(&pool).unwrap();
    }
    let given = shot(&pool);
    drop(pool);
    let pool = open(&memory);
    account(&pool).unwrap();
    assert_eq!(shot(&pool), given);
}

/// The list does not lie on pages under a grant, where a client may still store (G2).
#[test]
fn t6_g2_a_list_of_extents_lies_under_no_grant() {
    let pool = open(&new_pool(Model::MAPPED));
    let wide = fill_up(&pool).unwrap();
    let full = (pool.usage(), shot(&pool));
    let caller = Caller {
        pid: std::process::id(),
        uid: 0,
        process: PidFd::open(std::process::id()).expect("it lives"),
        connection: 0,
    };
    let (process, last) =
        (Process::of(&caller, BOOT), Extent { page: wide.extents[10].end() - 1, pages: 1, ..wide.extents[10] });
    let ask = GrantRequest { tag: &wide, extents: &[last], rights: GrantRights::ReadWrite, process: &process };
    let granted = pool.grant(&ask).unwrap();
    assert!(matches!(give(&pool, "wide"), Err(Error::Full { .. })));
    assert_eq!((pool.usage(), shot(&pool)), full);
    pool.grants().release(&pool, granted.id).unwrap();
    give(&pool, "wide").unwrap();
    account(&pool).unwrap();
}

#[test]
fn names_are_checked_and_unique() {
    let pool = open(&new_pool(Model::MAPPED));
    let long = "ü".repeat(128);
    for bad in ["", "a\nb", "nul\0", &long] {
        let error = create(&pool, bad, &[]).unwrap_err().to_string();
        assert!(error.contains("is not a valid name: 1 to 255 bytes of UTF-8, no control characters"), "{error}");
    }
    create(&pool, &"x".repeat(255), &[]).unwrap();
    create(&pool, "ä b", &[]).unwrap();
    assert_eq!(create(&pool, "ä b", &[]).unwrap_err().to_string(), "a tag called \"ä b\" already exists");
    assert_eq!(remove(&pool, "c").unwrap_err().to_string(), "there is no tag called \"c\": see `ferrite tag list`");
}

/// A copy of a tag that is older than the tag frees nothing that the tag has given up since.
#[test]
fn t1_a_stale_copy_of_a_tag_frees_nothing_twice() {
    let pool = open(&new_pool(Model::MAPPED));
    let stale = create(&pool, "a", &[need(Zone::Normal, PAGE); 3]).unwrap();
    change(&pool, "a", &[]).unwrap();
    let taker = create(&pool, "taker", &[need(Zone::Normal, PAGE)]).unwrap();
    assert_eq!(taker.extents[0], stale.extents[0], "the page that was given up is used again");
    let change = TagChange { size: 0, attributes: [0; 64], add: &[], keep: &stale.extents };
    let error = pool.change_tag(&stale, &change, |_| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "tag \"a\" was changed by another caller: read it again");
    pool.change_tag(&stale, &TagChange { keep: &[stale.extents[2]], ..change }, |_| Ok(())).unwrap();
    account(&pool).unwrap();
    pool.remove_tag(&stale).unwrap();
    account(&pool).unwrap();
    create(&pool, "a", &[]).unwrap();
    assert!(matches!(pool.remove_tag(&stale), Err(Error::NotFound(_))), "T3: another tag of that name");
}

#[test]
fn sizes_that_are_a_multiple_of_nothing() {
    for extra in [0, 1, 4095, CHUNK - 1, CHUNK, CHUNK + 7] {
        let memory = Arc::new(LyingMemory::new(POOL_BYTES_MIN + extra, Model::MAPPED));
        Pool::create(&*memory, &format()).unwrap();
        let pool = Pool::open(memory, BOOT).unwrap().0;
        let chunks = 2 + extra / CHUNK;
        assert_eq!(pool.usage().free_bytes, chunks * CHUNK);
        create(&pool, "all", &[need(Zone::Super, chunks * CHUNK)]).unwrap();
        assert!(matches!(create(&pool, "more", &[need(Zone::Normal, 1)]), Err(Error::Full { .. })));
    }
    let error = Pool::create(&LyingMemory::new(POOL_BYTES_MIN - 1, Model::MAPPED), &format()).unwrap_err();
    assert_eq!(error.to_string(), "a pool of 8.0 MiB is too small: 8 MiB at least");
}
