//! A3: crashes around what goes back to the host.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_crash::{CrashReport, explore};

use super::*;
use crate::layout::LANES;
use crate::tests::support::{DeafMemory, MemoryCall, options, reopen};

/// Space that the host drops reads as zeros at once, and a crash may still bring its content back: whether that happens
/// to the next owner of the space.
fn comes_back(model: Model, seed: u64, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> bool {
    let memory = new_pool(model);
    let pool = Pool::open(DeafMemory::new(&memory, ignores), BOOT).expect("it opens").0;
    let old = make(&pool, "old", Zone::Super, CHUNK).expect("room");
    words(&old).for_each(|at| memory.store(at, b"old word", Scheme::Nt));
    memory.drain().expect("settled");
    pool.remove_tag(&old).expect("removed");
    let new = make(&pool, "new", Zone::Super, CHUNK).expect("room");
    assert_eq!(new.extents, old.extents);
    let before: Vec<u64> = words(&new).map(|at| memory.load_word(at)).collect();
    assert!(before.contains(&0), "nothing was dropped");
    drop(pool);
    let left = memory.crash(seed);
    !words(&new).map(|at| left.load_word(at)).eq(before)
}

#[test]
fn a3_crash_what_the_host_dropped_does_not_come_back_to_who_is_next() {
    for (model, seed) in Model::ALL.into_iter().flat_map(|model| (0..16).map(move |seed| (model, seed))) {
        assert!(!comes_back(model, seed, |_| false), "{model:?}, seed {seed}");
    }
}

#[test]
fn canary_a_chunk_that_is_free_before_the_host_has_dropped_it_is_caught() {
    let is_caught = |seed| {
        let is_next = AtomicBool::new(false);
        comes_back(Model::MAPPED, seed, move |call| {
            is_next.swap(matches!(call, MemoryCall::Release(_)), Ordering::Relaxed)
                && matches!(call, MemoryCall::Settle(_))
        })
    };
    assert!((0..16).any(is_caught));
}

/// The owner is killed when the removal of a tag is visible and may not be durable; power fails while its successor
/// recovers, which returns the freed chunks to the host. `before_each` is called with the tag's extents before each call
/// that orders or settles stores.
fn kill_then_crash(
    model: Model,
    before_each: impl Fn(&LyingMemory, Span, MemoryCall) + Send + Sync + 'static,
) -> CrashReport {
    let memory = new_pool(model);
    let pool = open(&memory);
    let tag = make(&pool, "a", Zone::Super, CHUNK).expect("room");
    words(&tag).for_each(|at| memory.store(at, b"its word", Scheme::Nt));
    pool.close().expect("closed");
    {
        let _killed = memory.as_thread(9);
        let commits = |call| matches!(call, MemoryCall::Settle(span) if (LANES..CHUNK).contains(&span.at));
        let deaf = DeafMemory::new(&memory, move |call| commits(call) && panic!("killed"));
        let pool = Pool::open(deaf, BOOT).expect("it opens").0;
        catch_unwind(AssertUnwindSafe(|| pool.remove_tag(&tag))).expect_err("killed");
        // The kernel that ends a thread drains its processor's buffers.
        memory.fence();
    }
    let _successor = memory.as_thread(1);
    memory.forget_trace();
    let (same, span) = (memory.clone(), tag.extents[0].span());
    let watched = DeafMemory::new(&memory, move |call| {
        before_each(&same, span, call);
        false
    });
    let (pool, recovery) = Pool::open(watched, BOOT).expect("it opens");
    assert!(recovery.replay.transactions == 1 && pool.tags().is_empty());
    assert!(words(&tag).any(|at| memory.load_word(at) == 0), "the host has dropped some of it");
    explore(&memory, &options(1 << 8, 60), |crash| {
        let (memory, pool) = reopen(crash)?;
        let is_whole = || words(&tag).all(|at| memory.load_word(at) == u64::from_le_bytes(*b"its word"));
        if pool.tag("a").is_ok() && !is_whole() {
            return Err("A3: the host has dropped what a tag has".into());
        }
        account(&pool)
    })
}

#[test]
fn a3_crash_recovery_has_the_host_drop_nothing_of_a_tag_that_comes_back() {
    for model in Model::ALL {
        let report = kill_then_crash(model, |_, _, _| ());
        println!("given back by recovery: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_what_is_given_back_before_that_it_is_free_is_durable_is_caught() {
    let is_first = AtomicBool::new(true);
    let report = kill_then_crash(Model::FILE, move |memory, span, _| {
        if is_first.swap(false, Ordering::Relaxed) {
            memory.release(span).expect("nothing fails");
        }
    });
    let found = &report.expect_failure().error;
    assert!(found.starts_with("A3"), "{found}");
}
