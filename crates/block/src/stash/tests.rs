use std::sync::Barrier;

use ferrite_memory::pin;

use super::*;

/// What idle threads keep would be missing to a disk that is short of free blocks.
#[test]
fn a_recall_finds_what_idle_threads_keep() {
    let (stashes, kept) = (Stashes::default(), Barrier::new(4));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (stashes, kept) = (&stashes, &kept);
            scope.spawn(move || {
                let pin = pin();
                let stash = stashes.of(&pin).expect("few threads run here");
                assert!(stash.keep(thread) && stash.free(thread + 10));
                drop(pin);
                kept.wait();
                kept.wait();
            });
        }
        kept.wait();
        let Recalled { mut ready, mut freed } = stashes.recall();
        ready.sort_unstable();
        freed.sort_unstable();
        assert_eq!((ready, freed, stashes.count()), (vec![0, 1, 2], vec![10, 11, 12], 0));
        kept.wait();
    });
}

/// A block that two threads get is written by both.
#[test]
fn recalls_and_owners_never_get_the_same_block() {
    let (stashes, seen) = (Stashes::default(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let mut mine = Vec::new();
            for block in 0..20_000 {
                let pin = pin();
                match stashes.of(&pin) {
                    Some(stash) if !stash.keep(block) => mine.push(block),
                    Some(stash) if block % 3 == 0 => mine.extend(stash.take()),
                    Some(_) => {}
                    None => mine.push(block),
                }
            }
            mine
        });
        while !owner.is_finished() {
            seen.lock().extend(stashes.recall().ready);
        }
        seen.lock().extend(owner.join().expect("it ends"));
    });
    let mut seen = seen.into_inner();
    seen.extend(stashes.recall().ready);
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..20_000), "{} blocks of 20000", seen.len());
}
