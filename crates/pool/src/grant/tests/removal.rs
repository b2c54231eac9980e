//! G2, G3: what becomes of pages when tags go and grants end, in every order.

use super::*;

#[test]
fn g2_a_removed_tag_is_gone_and_its_pages_are_nobodys_until_the_grant_ends() {
    for zone in [Zone::Normal, Zone::Super] {
        let pool = pool();
        let free = pool.usage().free_bytes;
        let process = ours();
        let tag = tag(&pool, "a", &[need(zone, CHUNK)]).expect("tag");
        let granted = pool.grant(&ask(&tag, &process)).expect("grant");
        pool.remove_tag(&tag).expect("remove");
        assert!(matches!(pool.tag("a"), Err(Error::NotFound(_))));
        assert_eq!(pool.grants().held_bytes(), CHUNK);
        assert_held(&pool, &tag.extents);
        assert_accounted(&pool);
        pool.grants().release(&pool, granted.id).expect("release");
        assert_eq!((pool.usage().free_bytes, pool.grants().held_bytes()), (free, 0));
        assert!(Coverage::of(&tag.extents).extents().iter().all(|extent| all_free(&pool).touches(*extent)));
        assert_accounted(&pool);
    }
}

#[test]
fn g2_pages_with_two_grants_are_held_until_both_have_ended() {
    let pool = pool();
    let process = ours();
    let tag = tag(&pool, "a", &[need(Zone::Normal, 4 * PAGE)]).expect("tag");
    let half = [Extent { pages: 2, ..tag.extents[0] }];
    let first = pool.grant(&ask(&tag, &process)).expect("whole");
    let second = pool.grant(&GrantRequest { extents: &half, ..ask(&tag, &process) }).expect("half");
    pool.remove_tag(&tag).expect("remove");
    pool.grants().release(&pool, first.id).expect("release");
    assert_eq!(pool.grants().held_bytes(), 2 * PAGE, "the half that nobody else has is free");
    assert_held(&pool, &half);
    assert_accounted(&pool);
    pool.grants().release(&pool, second.id).expect("release");
    assert_eq!(pool.grants().held_bytes(), 0);
}

#[test]
fn g2_recovery_holds_what_a_living_process_may_touch() {
    for zone in [Zone::Normal, Zone::Super] {
        let memory = formatted(Model::MAPPED);
        let (pool, process) = (opened(&memory, THIS_BOOT), ours());
        let free = pool.usage().free_bytes;
        let tag = tag(&pool, "a", &[need(zone, CHUNK + PAGE)]).expect("tag");
        let granted = pool.grant(&ask(&tag, &process)).expect("grant");
        pool.remove_tag(&tag).expect("remove");
        drop(pool);

        let pool = opened(&Arc::new(memory.kill()), THIS_BOOT);
        assert_held(&pool, &tag.extents);
        assert_accounted(&pool);
        let standing = pool.grants().standing();
        assert_eq!(standing.len(), 1);
        assert_eq!((standing[0].id, standing[0].process), (granted.id, process.identity()));
        assert_eq!(pool.grants().reap(&pool).expect("reap"), 0, "it lives");
        pool.grants().release(&pool, granted.id).expect("given back to the new owner");
        assert_eq!(pool.usage().free_bytes, free);
        drop(pool);

        let pool = opened(&Arc::new(memory.kill()), LATER_BOOT);
        assert_eq!((pool.grants().standing(), pool.usage().free_bytes), (vec![], free), "no process outlives a boot");
        assert_accounted(&pool);
    }
}

#[test]
fn g2_a_held_page_is_not_lost_when_its_chunk_is_used_by_others() {
    let memory = formatted(Model::MAPPED);
    let (pool, process) = (opened(&memory, THIS_BOOT), ours());
    let tag_a = tag(&pool, "a", &[need(Zone::Super, CHUNK)]).expect("tag");
    let page = [Extent { page: tag_a.extents[0].page + 5, pages: 1, zone: Zone::Normal, ..tag_a.extents[0] }];
    let granted =
        pool.grant(&GrantRequest { extents: &page, ..ask(&tag_a, &process) }).expect("one page of a superpage");
    pool.remove_tag(&tag_a).expect("remove");
    assert_eq!(pool.grants().held_bytes(), CHUNK, "a superpage is held whole");
    drop(pool);

    // After a crash only the page is held, and its chunk serves others.
    let memory = Arc::new(memory.kill());
    let pool = opened(&memory, THIS_BOOT);
    assert_eq!(pool.grants().held_bytes(), PAGE);
    let supers = tag(&pool, "super", &[need(Zone::Super, 3 * CHUNK)]).expect("all chunks but one");
    let normal = tag(&pool, "normal", &[need(Zone::Normal, (CHUNK_PAGES - 1) * PAGE)]).expect("the rest of that");
    assert_held(&pool, &page);
    assert!(!Coverage::of(supers.extents.iter().chain(&normal.extents)).touches(page[0]));
    assert!(matches!(tag(&pool, "more", &[need(Zone::Normal, PAGE)]), Err(Error::Full { .. })));
    pool.grants().release(&pool, granted.id).expect("release");
    tag(&pool, "more", &[need(Zone::Normal, PAGE)]).expect("its page is free now");
    assert_accounted(&pool);
    drop(pool);
    assert_accounted(&opened(&Arc::new(memory.kill()), THIS_BOOT));
}

#[test]
fn g3_a_grant_ends_once() {
    let pool = pool();
    let process = ours();
    let tag = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    let granted = pool.grant(&ask(&tag, &process)).expect("grant");
    pool.grants().release(&pool, granted.id).expect("release");
    assert!(matches!(pool.grants().release(&pool, granted.id), Err(Error::NotFound(_))));
    assert_accounted(&pool);
}

#[test]
fn a_grant_needs_the_tag_as_it_stands() {
    let pool = pool();
    let process = ours();
    let old = tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("tag");
    let beyond = [Extent { pages: 2, ..old.extents[0] }];
    assert!(matches!(pool.grant(&GrantRequest { extents: &beyond, ..ask(&old, &process) }), Err(Error::Busy(_))));
    pool.remove_tag(&old).expect("remove");
    tag(&pool, "a", &[need(Zone::Normal, PAGE)]).expect("another of that name");
    assert!(matches!(pool.grant(&ask(&old, &process)), Err(Error::NotFound(_))));
    assert_eq!(pool.grants().standing(), vec![]);
    assert_accounted(&pool);
}

/// A grant that cannot be recorded leaves nothing behind: every fallible call of it fails in turn.
#[test]
fn a_failed_grant_leaves_nothing_behind() {
    for failing in 0.. {
        let memory = formatted(Model::FILE);
        memory.keep_trace(false);
        let (pool, process) = (opened(&memory, THIS_BOOT), ours());
        let tag = tag(&pool, "a", &[need(Zone::Normal, 9 * PAGE)]).expect("tag");
        let pieces = every_other_page(&tag, 5);
        let call = memory.calls() + failing;
        memory.fail_nth(call);
        let granted = pool.grant(&GrantRequest { extents: &pieces, ..ask(&tag, &process) });
        if granted.is_ok() {
            if memory.calls() > call {
                // What a host refuses is looked for elsewhere in the pool.
                memory.barrier().expect("a failed persist is told");
                assert_held(&pool, &pieces);
                continue;
            }
            assert_held(&pool, &pieces);
            assert!(failing > 1, "a reserve and a barrier may fail");
            return;
        }
        assert_eq!(pool.grants().standing(), vec![]);
        drop(pool);
        let pool = opened(&Arc::new(memory.kill()), THIS_BOOT);
        assert_accounted(&pool);
    }
}
