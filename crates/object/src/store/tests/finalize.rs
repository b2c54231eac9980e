//! A finalize that is cut: the store keeps all its content, and the backup exists whole or not at all.

use ferrite_crash::{Crash, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::Memory;
use ferrite_pool::Format;
use ferrite_pool::backup::verify_image;
use ferrite_pool::check::check_open;
use ferrite_pool::layout::CHUNK;

use super::*;
use crate::tests::support::{BOOT, Verdict, seed};

const IMAGE: [u8; 16] = *b"image of a test.";

/// The store in `memory`, of this process alone.
fn store_on(memory: &Arc<LyingMemory>, place: &Place) -> Store {
    File::create(&place.path).expect("a file to lock");
    let lock = ours(&place.path).expect("nobody has it");
    let (memory, speed) = (Arc::clone(memory) as Arc<dyn Memory>, String::new());
    let memory = PoolMemory { memory, mapped: None, counted: None, speed, sees_all: None };
    let registry = Arc::new(ServiceRegistry::default().with(ObjectService));
    let owner = PoolOwner::open_in_boot(lock, memory, &registry, BOOT).expect("it opens");
    Store { path: place.path.clone(), tags: TagAccess::Own(Arc::new(owner)) }
}

/// A new pool with room for holes.
fn large_pool(model: Model) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(POOL_BYTES_MIN + 4 * CHUNK, model);
    memory.keep_trace(false);
    Pool::create(&memory, &Format { uuid: NEW.uuid, boot_id: BOOT }).unwrap();
    Arc::new(memory)
}

/// A store with objects behind a hole, so that some move.
fn scattered(model: Model) -> Arc<LyingMemory> {
    let (memory, place) = (large_pool(model), place());
    let store = store_on(&memory, &place);
    drop(store.log("hole", Logging { log_bytes: 3 << 20, ..SMALL }).unwrap());
    fill(&store);
    drop(store.log("behind", Logging { log_bytes: 1500 << 10, ..SMALL }).unwrap());
    store.free("hole").unwrap();
    drop(store);
    Arc::new(memory.kill())
}

fn finish(image: &Path) -> Finish {
    Finish { defragment: true, backup: Some((image.into(), IMAGE)) }
}

/// What `memory` was left with holds together and has all; whether it was closed in order.
fn assert_kept(memory: &Arc<LyingMemory>) -> bool {
    memory.keep_trace(false);
    let place = place();
    let store = store_on(memory, &place);
    assert_filled(&store);
    let (pool, recovery) = (owned(&store), store.recovery().expect("ours"));
    let mut owners = TagOwners::default();
    owners.register(Box::new(ObjectService));
    let report = check_open(pool, &owners, &mut |_| ());
    assert!(report.is_sound(), "{:?}", report.findings);
    recovery.clean
}

/// The image is not there, or has all; whether it is there.
fn assert_whole_or_absent(image: &Path) -> bool {
    assert!(!image.with_extension("image.partial").exists(), "a part is left");
    if !image.exists() {
        return false;
    }
    verify_image(image, &mut |_| true).unwrap();
    let memory = LyingMemory::new(POOL_BYTES_MIN + 4 * CHUNK, Model::MAPPED);
    memory.keep_trace(false);
    backup::restore_from(image, &memory, RestoreOptions { overwrite: false }, &mut |_| true).unwrap();
    assert!(assert_kept(&Arc::new(memory)), "a restored store was closed in order");
    true
}

#[test]
fn a_finalize_of_which_any_call_fails_loses_nothing() {
    for model in Model::ALL {
        let run = |failing: Option<u64>| {
            let (memory, place) = (scattered(model), place());
            let (store, image) = (store_on(&memory, &place), place.path.with_extension("image"));
            let before = memory.calls();
            failing.inspect(|number| memory.fail_nth(before + number));
            let done = store.finalize(&finish(&image));
            let is_there = assert_whole_or_absent(&image);
            (memory.calls() - before, memory, done, is_there)
        };
        let (calls, memory, done, is_there) = run(None);
        assert!(done.unwrap().defragmented.unwrap().moved_bytes > 0 && is_there);
        assert!(assert_kept(&Arc::new(memory.crash(seed()))), "closed in order, for good");
        let mut ended = 0;
        for number in 0..calls {
            let (_, memory, done, is_there) = run(Some(number));
            assert!(is_there || done.is_err(), "call {number}: no backup, and no error");
            let is_full = matches!(&done, Err(Error::Pool(error)) if error.is_want_of_space());
            assert!(!is_full, "call {number}: a full host only ends the defragmentation: {done:?}");
            ended += u64::from(done.is_ok());
            for left in [memory.kill(), memory.crash(number), memory.crash(number + calls)] {
                assert!(assert_kept(&Arc::new(left)) || done.is_err(), "call {number}: not closed, and no error");
            }
        }
        assert!(calls > 5 && ended > 0, "{calls} calls, {ended} that a finalize does without");
    }
}

#[test]
fn crash_seeded_in_a_finalize_leaves_all_objects() {
    for model in Model::ALL {
        let (memory, place) = (scattered(model), place());
        let store = store_on(&memory, &place);
        memory.barrier().unwrap();
        memory.keep_trace(true);
        memory.forget_trace();
        store.finalize(&finish(&place.path.with_extension("image"))).unwrap();
        memory.mark(1);
        let judge = |crash: &Crash<'_>| -> Verdict {
            let is_clean = assert_kept(&Arc::new(crash.memory()));
            if is_clean || !crash.has_mark(1) { Ok(()) } else { Err("acknowledged, and not closed in order".into()) }
        };
        let points = Points::Sampled(40);
        let options =
            ExploreOptions { seed: seed(), points, images_per_point_max: 4, samples_per_point: 4, only: None };
        let report = explore(&memory, &options, judge);
        println!("finalize: {report}");
        report.assert_clean();
    }
}
