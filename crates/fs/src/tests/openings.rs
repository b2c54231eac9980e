//! The stores of an opening (F8 of the pool).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_crash::{Model, StoreHook};
use ferrite_memory::planted::plant;
use ferrite_memory::{Memory, Span};
use ferrite_pool::{Frozen, Pool, Role, Stream};

use super::support::{BOOT, NAME, POOL_BYTES, new_memory, options};
use crate::FileSystem;
use crate::format::layout::MapPages;

/// Opens a file system whose chunk is named by the other half of its word (FC3), so that the opening stores. Returns the
/// number of stores during which a freeze could begin.
fn stores_without_a_pass() -> u64 {
    let memory = Arc::new(StoreHook::new(new_memory(Model::MAPPED, POOL_BYTES)));
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("it opens").0);
    let tag = pool.tag(NAME).expect("it is there");
    let map = MapPages::new(Stream::new(&tag.extents, Role::MAP).runs(Span::new(0, u64::MAX)));
    let word = map.chunk_word(0);
    memory.store_word(word, memory.load_word(word) << 32);
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let (seen, known) = (Arc::clone(&counts), Arc::downgrade(&pool));
    memory.set(move |_| {
        seen[0].fetch_add(1, Ordering::Relaxed);
        let is_free = known.upgrade().is_some_and(|pool| !Frozen::would_wait(&pool));
        seen[1].fetch_add(u64::from(is_free), Ordering::Relaxed);
    });
    let opened = FileSystem::open(Arc::clone(&pool), NAME, options(None)).map(drop);
    memory.clear();
    opened.expect("it opens");
    assert!(counts[0].load(Ordering::Relaxed) > 0, "the opening stores");
    counts[1].load(Ordering::Relaxed)
}

#[test]
fn f8_no_freeze_begins_between_the_stores_of_an_opening() {
    assert_eq!(stores_without_a_pass(), 0);
}

#[test]
fn canary_an_opening_without_a_pass_is_caught() {
    let _bug = plant("freeze: a service that opens has no pass");
    assert!(stores_without_a_pass() > 0);
}
