//! The stores of a cache that is opened, forgotten or removed (F8 of the pool).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_crash::{StoreHook, World};
use ferrite_disk::VirtualClock;
use ferrite_memory::Scheme;
use ferrite_memory::planted::plant;
use ferrite_pool::{Frozen, Pool};
use parking_lot::Mutex;

use super::cache_rig::BOOT;
use super::{RigOpener, RigShape, members_of};
use crate::{Cache, ForgetScope, MemberOpener, OpenOptions, Result, forget_cache, remove_cache};

/// Returns another number at each call: a member gets an identity of its own.
fn next_number() -> u16 {
    static NEXT: AtomicU64 = AtomicU64::new(3);
    NEXT.fetch_add(1, Ordering::Relaxed) as u16
}

type Work = fn(&Arc<Pool>, OpenOptions) -> Result<()>;

/// Works that store into a cache that is not registered.
const WORKS: [(&str, Work); 3] = [
    ("open", |pool, options| Cache::open(pool, "c", options).map(drop)),
    ("forget", |pool, options| forget_cache(pool, "c", &options, ForgetScope::Clean).map(drop)),
    ("remove", |pool, options| remove_cache(pool, "c", &options, None)),
];

/// Returns the numbers of all stores of `work`, and of those during which a freeze could begin.
fn stores_of(world: &World, shape: &RigShape, work: Work) -> [u64; 2] {
    let memory = Arc::new(StoreHook::new(world.memory().clone()));
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("it opens").0);
    let opener: Arc<dyn MemberOpener> = Arc::new(RigOpener(Mutex::new(members_of(world, shape))));
    let options =
        OpenOptions { opener, clock: Arc::new(VirtualClock::default()), scheme: Scheme::Nt, random: next_number };
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let (seen, known) = (Arc::clone(&counts), Arc::downgrade(&pool));
    memory.set(move |_| {
        seen[0].fetch_add(1, Ordering::Relaxed);
        let is_free = known.upgrade().is_some_and(|pool| !Frozen::would_wait(&pool));
        seen[1].fetch_add(u64::from(is_free), Ordering::Relaxed);
    });
    let done = work(&pool, options);
    memory.clear();
    done.expect("done");
    counts.each_ref().map(|count| count.load(Ordering::Relaxed))
}

/// A cache whose pages lie in buffers and in LEBs, so that its recovery stores.
fn used_world(shape: &RigShape) -> World {
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..8).for_each(|block| rig.write(block, 1 + block));
    rig.settle();
    rig.clean();
    rig.write(9, 9);
    rig.cache.clean_all(true);
    for _ in 0..1000 {
        rig.cache.step().expect("a step");
    }
    drop(rig);
    world
}

#[test]
fn f8_no_freeze_begins_between_the_stores_of_a_closed_cache() {
    let shape = RigShape::default();
    for (name, work) in WORKS {
        let [all, free] = stores_of(&used_world(&shape), &shape, work);
        assert!(all > 0 && free == 0, "{name}: {free} of {all}");
    }
}

#[test]
fn canary_a_closed_cache_without_a_pass_is_caught() {
    let _bug = plant("freeze: a service that opens has no pass");
    let shape = RigShape::default();
    // The recovery of this cache stores by transactions alone.
    for (name, work) in &WORKS[1..] {
        let [all, free] = stores_of(&used_world(&shape), &shape, *work);
        assert!(free > 0, "{name}: {free} of {all}");
    }
}
