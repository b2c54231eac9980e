//! The lying memory leaves exactly the images that rules M1-M4 of the waist allow, as CP1-CP10 make them definite. Each
//! test lists all expected images, no more and no fewer.

use std::collections::BTreeSet;

use ferrite_crash::{ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Error, Memory, Scheme, Span};

/// Returns all images of the first `N` words after the whole run.
fn images<const N: usize>(memory: &LyingMemory) -> BTreeSet<[u64; N]> {
    let (mut at_end, mut last) = (BTreeSet::new(), 0);
    let options = ExploreOptions { points: Points::Widest, ..ExploreOptions::default() };
    memory.mark(0);
    let report = explore(memory, &options, |crash| {
        if crash.place().point > last {
            (at_end, last) = (BTreeSet::new(), crash.place().point);
        }
        let image = std::array::from_fn(|word| crash.load_word(word as u64 * 8));
        if at_end.insert(image) { Ok(()) } else { Err(format!("the image {image:?} came twice")) }
    });
    report.assert_clean().assert_exhaustive();
    at_end
}

fn set<const N: usize>(images: impl IntoIterator<Item = [u64; N]>) -> BTreeSet<[u64; N]> {
    images.into_iter().collect()
}

fn store(memory: &LyingMemory, word: u64, value: u64, how: Scheme) {
    memory.store(word * 8, &value.to_le_bytes(), how);
}

/// M2, CP1: cached stores to one line land in order, and stores to two lines land in any order.
#[test]
fn cached_stores_keep_any_prefix_of_a_line() {
    let memory = LyingMemory::new(128, Model::MAPPED);
    memory.store_word(0, 1);
    memory.store_word(8, 2);
    memory.store_word(0, 3);
    assert_eq!(images(&memory), set([[0, 0], [1, 0], [1, 2], [3, 2]]));
    let memory = LyingMemory::new(128, Model::MAPPED);
    memory.store_word(0, 1);
    memory.store_word(64, 2);
    let both = images::<9>(&memory).iter().map(|image| [image[0], image[8]]).collect::<BTreeSet<_>>();
    assert_eq!(both, set([[0, 0], [0, 2], [1, 0], [1, 2]]));
}

/// CP1, M3: no copy routine promises an order within one call, but a word is whole.
#[test]
fn words_of_one_cached_store_land_in_any_order() {
    let memory = LyingMemory::new(64, Model::MAPPED);
    memory.store_word(16, 9);
    memory.store(0, &[1; 16], Scheme::Clwb);
    let one = 0x0101_0101_0101_0101;
    assert_eq!(images(&memory), set([[0, 0, 0], [0, 0, 9], [one, 0, 9], [0, one, 9], [one, one, 9]]));
}

/// M2, CP2, CP4: any subset of non-temporal words lands, and of one word any prefix. An unaligned tail is part of its
/// word.
#[test]
fn non_temporal_words_land_by_themselves() {
    let memory = LyingMemory::new(64, Model::MAPPED);
    store(&memory, 0, 1, Scheme::Nt);
    memory.store(0, &[2, 0, 0, 0, 0, 0, 0, 0, 3, 4], Scheme::Nt);
    let expected = [0, 1, 2].into_iter().flat_map(|first| [[first, 0], [first, 0x0403]]);
    assert_eq!(images(&memory), set(expected));
}

/// CP3: cached and non-temporal stores in one line land independently. A byte has the value of the newest store that
/// landed.
#[test]
fn cached_and_non_temporal_stores_meet_in_a_line() {
    let memory = LyingMemory::new(64, Model::MAPPED);
    memory.store_word(0, 1);
    store(&memory, 0, 2, Scheme::Nt);
    memory.store_word(8, 5);
    assert_eq!(images(&memory), set([[0, 0], [1, 0], [1, 5], [2, 0], [2, 5]]));
}

/// M1, CP5: a flush counts for the thread that made it, and covers stores of all threads. A fence counts only for its
/// own thread.
#[test]
fn the_thread_that_flushed_must_fence() {
    let run = |flusher, fencer| {
        let memory = LyingMemory::new(64, Model::MAPPED);
        {
            let _storer = memory.as_thread(1);
            memory.store_word(0, 7);
        }
        {
            let _flusher = memory.as_thread(flusher);
            memory.flush(Span::new(0, 8));
        }
        {
            let _fencer = memory.as_thread(fencer);
            memory.fence();
        }
        images::<1>(&memory)
    };
    let (lasts, may_be_lost) = (set([[7]]), set([[0], [7]]));
    assert_eq!([run(1, 1), run(2, 2)], [lasts.clone(), lasts]);
    assert_eq!([run(2, 1), run(1, 2)], [may_be_lost.clone(), may_be_lost]);
}

/// CP5: a fence does not make durable the stores after the flush, and a durable store never goes back.
#[test]
fn a_fence_settles_what_lay_before_the_flush() {
    let memory = LyingMemory::new(64, Model::MAPPED);
    memory.store_word(0, 1);
    memory.flush(Span::new(0, 8));
    memory.store_word(8, 2);
    memory.fence();
    assert_eq!(images(&memory), set([[1, 0], [1, 2]]));
    let memory = LyingMemory::new(64, Model::MAPPED);
    memory.store_word(0, 1);
    store(&memory, 0, 2, Scheme::Nt);
    memory.fence();
    assert_eq!(images(&memory), set([[2]]));
}

/// M1, CP6: a barrier, and no fence, makes `Writeback` and `WritebackAll` stores of any thread durable. It does not
/// cover unfenced stores of another thread.
#[test]
fn a_barrier_settles_writeback_stores() {
    for how in [Scheme::Writeback, Scheme::WritebackAll] {
        let memory = LyingMemory::new(64, Model::MAPPED);
        {
            let _other = memory.as_thread(1);
            store(&memory, 0, 1, how);
            store(&memory, 1, 2, Scheme::Nt);
            memory.fence();
            store(&memory, 2, 3, Scheme::Nt);
        }
        let before: BTreeSet<[u64; 3]> = images(&memory);
        assert_eq!(before, set([[0, 2, 0], [1, 2, 0], [0, 2, 3], [1, 2, 3]]), "{how:?}");
        memory.barrier().unwrap();
        assert_eq!(images(&memory), set([[1, 2, 0], [1, 2, 3]]), "{how:?}");
    }
}

/// M1: a fence does for the stores of a scheme exactly as [`Scheme::is_durable_at_fence`] reports.
#[test]
fn schemes_settle_where_they_say() {
    for (name, how) in Scheme::ALL {
        let memory = LyingMemory::new(64, Model::MAPPED);
        store(&memory, 0, 1, how);
        assert_eq!(images(&memory), set([[0], [1]]), "{name} is durable before it is fenced");
        memory.fence();
        let settled = if how.is_durable_at_fence() { set([[1]]) } else { set([[0], [1]]) };
        assert_eq!(images(&memory), settled, "{name}");
        memory.barrier().unwrap();
        assert_eq!(images(&memory), set([[1]]), "{name}");
    }
}

/// CP10: before its fence, a `Writethrough` store may lack any of its words, like any flushed store.
#[test]
fn writethrough_is_as_flushed() {
    let memory = LyingMemory::new(64, Model::MAPPED);
    memory.store(0, &[1; 16], Scheme::Writethrough);
    let one = 0x0101_0101_0101_0101;
    assert_eq!(images(&memory), set([[0, 0], [one, 0], [0, one], [one, one]]));
    memory.fence();
    assert_eq!(images(&memory), set([[one, one]]));
}

/// M1, M2, CP7: on a file, fences and flushes have no effect, and a barrier of any thread makes everything durable.
#[test]
fn on_a_file_only_a_barrier_settles() {
    let memory = LyingMemory::new(64, Model::FILE);
    {
        let _other = memory.as_thread(1);
        memory.store_word(0, 1);
        memory.store_word(8, 2);
        memory.flush(Span::new(0, 16));
        memory.fence();
    }
    assert_eq!(images(&memory), set([[0, 0], [1, 0], [0, 2], [1, 2]]));
    memory.barrier().unwrap();
    assert_eq!(images(&memory), set([[1, 2]]));
}

/// CP7: a barrier of a span makes nothing durable in the lines beside the span.
#[test]
fn on_a_file_a_span_is_settled_alone() {
    let memory = LyingMemory::new(128, Model::FILE);
    memory.store_word(0, 1);
    memory.store_word(64, 2);
    memory.drain_range(Span::new(64, 8)).unwrap();
    assert_eq!(images(&memory), set([0, 1].map(|first| [first, 0, 0, 0, 0, 0, 0, 0, 2])));
}

/// M4, CP9: a failed barrier makes nothing durable, and every later one fails. After a reopening, barriers work.
#[test]
fn a_failed_barrier_poisons() {
    for model in Model::ALL {
        let memory = LyingMemory::new(64, model);
        memory.barrier().unwrap();
        memory.fail_nth(memory.calls());
        store(&memory, 0, 1, Scheme::Writeback);
        assert!(matches!(memory.barrier(), Err(Error::Io { .. })));
        assert!(matches!(memory.barrier(), Err(Error::Poisoned(_))));
        assert_eq!(images(&memory), set([[0], [1]]));
        assert_eq!(memory.load_word(0), 1);
        memory.kill().barrier().unwrap();
    }
}

/// A test can make each fallible call fail in turn, and only that call.
#[test]
fn each_fallible_call_fails_once() {
    let run = |memory: &LyingMemory| {
        let reserved = memory.reserve(Span::new(0, 64)).is_ok();
        [reserved, memory.release(Span::new(0, 64)).is_ok(), memory.barrier().is_ok()]
    };
    let counting = LyingMemory::new(64, Model::FILE);
    assert_eq!(run(&counting), [true; 3]);
    for number in 0..counting.calls() {
        let memory = LyingMemory::new(64, Model::FILE);
        memory.fail_nth(number);
        assert_eq!(run(&memory), std::array::from_fn(|call| call as u64 != number));
    }
}

/// CP8: some released pages read as zeros, and until a barrier a crash may bring their content back.
#[test]
fn released_pages_are_zeros_or_as_before() {
    let bytes: Vec<u8> = (0..16 * 512u64).flat_map(|word| if word % 512 == 0 { [1; 8] } else { [0; 8] }).collect();
    let memory = LyingMemory::from_image(&bytes, Model::FILE);
    memory.release(Span::new(0, bytes.len() as u64)).unwrap();
    let dropped = (0..16u64).filter(|page| memory.load_word(page * 4096) == 0).count() as u32;
    assert!((1..16).contains(&dropped), "{dropped}");
    let count = |memory: &LyingMemory| explore(memory, &ExploreOptions::default(), |_| Ok(())).images;
    assert_eq!(count(&memory), 1 + 2u64.pow(dropped));
    memory.barrier().unwrap();
    memory.forget_trace();
    assert_eq!(count(&memory), 1);
}

/// A store of bytes that are already durable changes no image, and zeroing a fresh memory adds none.
#[test]
fn stores_without_effect_add_no_images() {
    let memory = LyingMemory::new(64 << 20, Model::MAPPED);
    memory.zero(Span::new(0, 64 << 20), Scheme::Nt);
    memory.store(100, &[0; 5000], Scheme::Flush);
    assert_eq!(explore(&memory, &ExploreOptions::default(), |_| Ok(())).images, 1);
}

/// `Writeback`, non-temporal and flushed bytes all read back, across page ends and unaligned.
#[test]
fn readers_see_the_newest_bytes() {
    let memory = LyingMemory::new(3 * 4096 + 10, Model::MAPPED);
    let mut expected = vec![0; 3 * 4096 + 10];
    for (number, (_, how)) in Scheme::ALL.into_iter().enumerate() {
        let (at, bytes) = (4000 + number * 37, vec![number as u8 + 1; 300]);
        memory.store(at as u64, &bytes, how);
        expected[at..at + 300].copy_from_slice(&bytes);
    }
    memory.zero(Span::new(4090, 13), Scheme::Nt);
    expected[4090..4103].fill(0);
    assert_eq!(memory.snapshot(), expected);
    assert_eq!(memory.kill().snapshot(), expected);
}
