//! Single rules of the cache, each with its planted bug.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::planted::{plant, plant_with};
use ferrite_memory::{Result, Span};
use ferrite_pool::Freeze;

use super::{CacheRig, RigShape, block_of, members_of};
use crate::buffer_set::SlotUse;
use crate::cache_core::{CacheCore, is_unlocked};
use crate::new_version::{Expected, NewVersion};
use crate::page_word::BlockKey;
use crate::{BLOCK, CacheMode, CacheSettings};

fn rig() -> CacheRig {
    let shape = RigShape::default();
    shape.open(&shape.world()).expect("it opens")
}

fn go_around(rig: &CacheRig) {
    rig.cache.set(CacheSettings { mode: CacheMode::WriteAround, ..rig.cache.settings() }).expect("set");
}

/// Writes a sector around the cache, which has a dirty version of its block. Returns true if the rest of the block stays.
fn rest_of_a_dirty_block_stays() -> bool {
    let rig = rig();
    rig.write(3, 1);
    go_around(&rig);
    rig.disk.write(3 * BLOCK, &block_of(2)[..512], Access::Cached).expect("written");
    let mut expected = block_of(1);
    expected[..512].copy_from_slice(&block_of(2)[..512]);
    rig.read(3) == Ok(expected)
}

#[test]
fn ca7_no_write_goes_around_a_dirty_block() {
    assert!(rest_of_a_dirty_block_stays());
}

#[test]
fn canary_write_around_a_dirty_block_is_caught() {
    let _bug = plant("cache: a change goes around a dirty block");
    assert!(!rest_of_a_dirty_block_stays());
}

/// Writes a block around the cache between a read of the disk and its entry. Returns true if the newer bytes are read.
fn overtaken_fill_does_not_hide_a_write() -> bool {
    let rig = rig();
    let (core, key) = (&rig.cache.core, BlockKey::new(0, 3));
    assert!(core.index.lock(key).begin_fill(key));
    go_around(&rig);
    rig.write(3, 2);
    let grant = core.take_slot(SlotUse::Clean, false).expect("a buffer is free");
    core.publish(grant, &NewVersion { key, dirty: false, hits: 0, data: &block_of(0) }, Expected::Fill);
    core.finish_slot(grant);
    rig.read(3) == Ok(block_of(2))
}

#[test]
fn ca8_fill_that_a_write_overtook_is_not_published() {
    assert!(overtaken_fill_does_not_hide_a_write());
}

#[test]
fn canary_fill_that_enters_after_a_later_write_is_caught() {
    let _bug = plant("cache: a fill enters after a later write");
    assert!(!overtaken_fill_does_not_hide_a_write());
}

/// Seals a buffer, drops its blocks around the cache, and opens the cache again before and behind a new filling of the
/// buffer. Returns true if no dropped version comes back.
fn no_slot_of_an_earlier_filling_counts() -> bool {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..3).for_each(|block| rig.write(block, 1));
    rig.clean();
    go_around(&rig);
    (0..3).for_each(|block| rig.write(block, 2));
    rig.settle();
    drop(rig);
    let rig = shape.open(&world).expect("it opens again");
    rig.cache.set(CacheSettings { mode: CacheMode::WriteBack, ..rig.cache.settings() }).expect("set");
    rig.write(9, 3);
    drop(rig);
    let rig = shape.open(&world).expect("it opens again");
    assert_eq!(rig.read(9), Ok(block_of(3)));
    (0..3).all(|block| rig.read(block) == Ok(block_of(2)))
}

#[test]
fn wb4_no_slot_of_an_earlier_filling_counts() {
    assert!(no_slot_of_an_earlier_filling_counts());
}

#[test]
fn canary_epoch_that_comes_again_is_caught() {
    let _bug = plant("cache: an epoch comes again");
    assert!(!no_slot_of_an_earlier_filling_counts());
}

/// Writes a block around the cache while its clean version is sealed, and kills the process once the LEB is valid.
/// Returns true if the write is there.
fn write_around_amid_a_seal_stays() -> bool {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..3).for_each(|block| drop(rig.read(block).expect("read")));
    go_around(&rig);
    let rig = Arc::new(rig);
    let (client, writes) = (Arc::clone(&rig), Rc::new(RefCell::new(None)));
    let begun = Rc::clone(&writes);
    let amid = plant_with("cache: amid a seal", move || {
        if begun.borrow().is_none() {
            let disk = Arc::clone(&client.disk);
            let write = move || disk.write(BLOCK, &block_of(2), Access::Cached).expect("written");
            let write = std::thread::spawn(write);
            // Without the bug the write ends behind the seal only.
            (0..50).take_while(|_| !write.is_finished()).for_each(|_| std::thread::sleep(Duration::from_millis(2)));
            *begun.borrow_mut() = Some(write);
        }
        false
    });
    let sealed = || rig.cache.core.counters.sealed_lebs.get();
    (0..100).take_while(|_| sealed() == 0).for_each(|_| _ = rig.cache.step().expect("a step"));
    assert_eq!(sealed(), 1);
    writes.take().expect("it began").join().expect("it ends");
    let world = world.kill(1);
    drop(amid);
    // Of a version that the disk does not have the fingerprint may speak first.
    shape.open(&world).is_ok_and(|rig| rig.read(1) == Ok(block_of(2)))
}

#[test]
fn ca3_write_around_a_block_that_is_sealed_stays() {
    assert!(write_around_amid_a_seal_stays());
}

#[test]
fn canary_seal_that_looks_at_slots_early_is_caught() {
    let _bug = plant("cache: a seal looks at slots early");
    assert!(!write_around_amid_a_seal_stays());
}

/// Lets a LEB die while a request reads it. Returns true if it stays out of use until the request has ended.
fn leb_that_is_read_stays() -> bool {
    let rig = rig();
    (0..3).for_each(|block| rig.write(block, 10 + block));
    rig.settle();
    let core = &rig.cache.core;
    let key = BlockKey::new(0, 0);
    let page = core.find(&core.index.lock(key), key).filter(|page| !page.is_slot()).expect("it was sealed");
    let table = core.memory.table_of(page).0;
    let place = core.memory.table_places(table).expect("it verifies")[0].expect("it has a copy");
    let sequence = core.memory.table_sequence(table).expect("it verifies");
    core.memory.table_state(table).readers.fetch_add(1, Ordering::AcqRel);
    (0..3).for_each(|block| rig.write(block, 20 + block));
    rig.settle();
    assert_ne!(core.memory.table_sequence(table), Ok(sequence), "no table names the LEB");
    let is_used = || rig.cache.worker.lock().used_lebs(place.ssd).contains(&place.leb);
    let stays = is_used();
    core.end_reader(page);
    rig.settle();
    assert!(!is_used(), "it is free now");
    stays
}

#[test]
fn ca9_leb_that_is_read_is_not_used_again() {
    assert!(leb_that_is_read_stays());
}

#[test]
fn canary_leb_that_is_free_while_it_is_read_is_caught() {
    let _bug = plant("cache: a LEB is free while it is read");
    assert!(!leb_that_is_read_stays());
}

/// Ends a backup. Returns true if the worker asks nothing of the members before they have a new generation.
fn members_wait_for_their_generation() -> bool {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..3).for_each(|block| rig.write(block, 10 + block));
    rig.cache.freeze();
    rig.cache.thaw();
    let requests = || (0..3).map(|number| world.disk(number).requests()).sum::<u64>();
    let before = requests();
    // The step of the worker alone: the step of the cache moves the members to a new generation.
    rig.cache.worker.lock().step(0).expect("a step");
    requests() == before
}

#[test]
fn ca12_nothing_is_written_to_members_before_they_have_the_generation_behind_a_backup() {
    assert!(members_wait_for_their_generation());
}

#[test]
fn canary_members_that_are_written_with_an_old_generation_are_caught() {
    let _bug = plant("cache: members are written before they have a new generation");
    assert!(!members_wait_for_their_generation());
}

/// Writes a block through the cache by a client that has put its version into a slot and is overtaken by another client.
/// Returns true if the disk has the newer one.
fn disk_has_the_newest_of_two_writes_through() -> bool {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = Arc::new(shape.open(&world).expect("it opens"));
    rig.cache.set(CacheSettings { mode: CacheMode::WriteThrough, ..rig.cache.settings() }).expect("set");
    let (client, writes) = (Arc::clone(&rig.disk), Cell::new(0));
    let ahead = plant_with("cache: ahead of a write through", move || {
        if writes.replace(1) == 0 {
            let disk = Arc::clone(&client);
            let write = move || disk.write(BLOCK, &block_of(2), Access::Cached).and_then(|()| disk.flush());
            std::thread::spawn(write).join().expect("it ends").expect("written");
        }
        false
    });
    rig.write(1, 1);
    drop(ahead);
    assert_eq!(rig.read(1), Ok(block_of(2)));
    world.disk(shape.ssds).snapshot()[BLOCK as usize..][..BLOCK as usize] == block_of(2)
}

#[test]
fn ca6_no_older_version_is_written_through_behind_a_newer_one() {
    assert!(disk_has_the_newest_of_two_writes_through());
}

#[test]
fn canary_older_version_that_is_written_through_is_caught() {
    let _bug = plant("cache: an older version is written through");
    assert!(!disk_has_the_newest_of_two_writes_through());
}

/// Copies the pool again while the members move to a new generation. Returns true if they have to move once more.
fn members_move_behind_each_copy() -> bool {
    let rig = Arc::new(rig());
    rig.cache.freeze();
    rig.cache.thaw();
    let (again, copies) = (Arc::clone(&rig), Cell::new(0));
    let amid = plant_with("cache: members have new generations", move || {
        if copies.replace(1) == 0 {
            again.cache.freeze();
            again.cache.thaw();
        }
        false
    });
    rig.cache.advance_if_needed().expect("they move");
    let has_to_move = !rig.cache.core.member_pass.is_given();
    rig.cache.advance_if_needed().expect("they move");
    assert!(rig.cache.core.member_pass.is_given());
    drop(amid);
    has_to_move
}

#[test]
fn ca12_members_move_behind_a_copy_that_was_made_while_they_moved() {
    assert!(members_move_behind_each_copy());
}

#[test]
fn canary_copy_amid_new_generations_that_is_forgotten_is_caught() {
    let _bug = plant("cache: a copy amid new generations is forgotten");
    assert!(!members_move_behind_each_copy());
}

/// Cleans a block that is in a buffer, and opens the cache again. Returns the dirty bytes.
fn dirty_bytes_of_a_clean_slot() -> u64 {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    rig.write(5, 1);
    rig.clean();
    drop(rig);
    let rig = shape.open(&world).expect("it opens");
    assert_eq!(rig.cache.recovery().slots, 1, "the block is still in its buffer");
    rig.cache.dirty_bytes()
}

#[test]
fn ca14_clean_block_in_a_buffer_is_clean_after_recovery() {
    assert_eq!(dirty_bytes_of_a_clean_slot(), 0);
}

#[test]
fn canary_recovery_that_takes_clean_blocks_as_dirty_is_caught() {
    let _bug = plant("cache: recovery takes clean blocks as dirty");
    assert_eq!(dirty_bytes_of_a_clean_slot(), BLOCK);
}

/// Writes around the cache. Returns the bytes that are counted, by reason.
fn counted_around() -> (u64, u64) {
    let rig = rig();
    go_around(&rig);
    (0..3).for_each(|block| rig.write(block, 1));
    let around = rig.cache.stats(None).around;
    (around.mode, around.sequential + around.too_dirty + around.buffers_full)
}

#[test]
fn ca17_bytes_around_the_cache_are_counted_with_their_reason() {
    assert_eq!(counted_around(), (3 * BLOCK, 0));
}

#[test]
fn canary_bytes_around_that_are_not_counted_are_caught() {
    let _bug = plant("cache: bytes around the cache are not counted");
    assert_ne!(counted_around(), (3 * BLOCK, 0));
}

/// Returns true if a write ends while the pool stands still, of which the rule allows none.
fn write_ends_while_frozen(with_bug: bool) -> bool {
    let rig = rig();
    rig.cache.freeze();
    let has_ended = std::thread::scope(|scope| {
        let write = scope.spawn(|| {
            let _bug = with_bug.then(|| plant("cache: a store does not wait while the pool stands still"));
            rig.write(1, 5);
        });
        // Without the bug the write cannot end, however long this waits.
        let rounds = if with_bug { 10_000 } else { 50 };
        for _ in 0..rounds {
            if write.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let has_ended = write.is_finished();
        rig.cache.thaw();
        has_ended
    });
    rig.settle();
    assert_eq!(rig.read(1), Ok(block_of(5)));
    has_ended
}

#[test]
fn ca19_no_store_ends_while_the_pool_stands_still() {
    assert!(!write_ends_while_frozen(false));
}

#[test]
fn canary_store_while_the_pool_stands_still_is_caught() {
    assert!(write_ends_while_frozen(true));
}

/// Counts the requests of members during which a thread holds a lock that clients' requests take.
#[derive(Default)]
struct LockWatch {
    core: OnceLock<Arc<CacheCore>>,
    requests: AtomicU64,
    locked: AtomicU64,
}

/// A member that is watched. It works in its caller's thread.
struct WatchedDisk {
    inner: Arc<dyn Disk>,
    watch: Arc<LockWatch>,
}

impl WatchedDisk {
    fn look(&self) -> &dyn Disk {
        if let Some(core) = self.watch.core.get() {
            self.watch.requests.fetch_add(1, Ordering::Relaxed);
            self.watch.locked.fetch_add(u64::from(!is_unlocked(core)), Ordering::Relaxed);
        }
        &*self.inner
    }
}

impl Disk for WatchedDisk {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.look().read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.look().write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        self.look().flush()
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.look().trim(span, access)
    }
}

/// Reads, fills, seals, destages, overwrites, trims and goes around. Returns the requests of members during which a lock was
/// held.
fn requests_under_a_lock() -> u64 {
    let shape = RigShape::default();
    let world = shape.world();
    let watch = Arc::new(LockWatch::default());
    let watched = |inner| Arc::new(WatchedDisk { inner, watch: Arc::clone(&watch) }) as Arc<dyn Disk>;
    let members = members_of(&world, &shape).into_iter().map(|(name, disk)| (name, watched(disk)));
    let rig = shape.open_with(&world, members.collect()).expect("it opens");
    assert!(watch.core.set(Arc::clone(&rig.cache.core)).is_ok());
    for mode in [CacheMode::WriteBack, CacheMode::WriteThrough, CacheMode::WriteAround] {
        rig.cache.set(CacheSettings { mode, ..rig.cache.settings() }).expect("set");
        for block in 0..9 {
            rig.write(block, 10 + block);
            rig.read((block + 9) % 18).expect("read");
            rig.settle();
        }
        rig.disk.write(512, &block_of(2)[..512], Access::Cached).expect("written");
        rig.disk.flush().expect("flushed");
        rig.disk.trim(Span::new(3 * BLOCK, BLOCK), Access::Cached).expect("trimmed");
        rig.clean();
    }
    assert!(watch.requests.load(Ordering::Relaxed) > 60);
    watch.locked.load(Ordering::Relaxed)
}

#[test]
fn ca16_no_lock_of_clients_is_held_over_a_request_of_a_member() {
    assert_eq!(requests_under_a_lock(), 0);
}

#[test]
fn canary_lock_that_is_held_over_a_read_of_a_disk_is_caught() {
    let _bug = plant("cache: a shard is locked while a disk is read");
    assert_ne!(requests_under_a_lock(), 0);
}
