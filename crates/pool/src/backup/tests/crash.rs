//! Restore under crashes and failing calls.

use ferrite_crash::{Crash, ExploreOptions, Points, explore};

use super::*;
use crate::tests::support::{DeafMemory, MemoryCall};

/// What may be found after a crash in a restore, and that the same restore then finishes.
fn recovers(crash: &Crash<'_>, image: &[u8], old: Option<&[u8]>) -> std::result::Result<(), String> {
    let memory = Arc::new(crash.memory());
    memory.keep_trace(false);
    match Pool::open(Arc::clone(&memory) as Arc<dyn Memory>, BOOT) {
        Ok((pool, _)) => {
            let found = get(&pool, "value");
            if found == b"some bytes" {
                return Ok(());
            }
            if old != Some(&found) || crash.has_mark(1) {
                return Err(format!("a pool opens with {found:?}"));
            }
        }
        Err(_) if crash.has_mark(1) => return Err("acknowledged, and no pool".into()),
        Err(Error::Restoring) => {}
        Err(Error::NotAPool(_)) if old.is_none() => {}
        Err(error) if old.is_none() && error.to_string().contains("superblock") => {}
        Err(error) => return Err(error.to_string()),
    }
    let again = RestoreOptions { overwrite: old.is_some() || Superblock::read(&*memory).is_err() };
    restore(&mut &*image, &*memory, again, &mut quiet).map_err(|error| error.to_string())?;
    let found = get(&open(&memory), "value");
    if found == b"some bytes" { Ok(()) } else { Err(format!("restored again: {found:?}")) }
}

fn options(samples: u64) -> ExploreOptions {
    ExploreOptions {
        points: Points::Widest,
        images_per_point_max: 64,
        samples_per_point: samples,
        ..ExploreOptions::default()
    }
}

/// BK3: a crash anywhere in a restore into nothing leaves nothing, a restore to run again, or the whole pool.
#[test]
fn bk3_a_crash_in_a_restore_is_finished_by_the_next() {
    let (_, image) = small();
    for model in Model::ALL {
        let memory = LyingMemory::new(POOL_BYTES_MIN, model);
        restore(&mut &image[..], &memory, RestoreOptions::default(), &mut quiet).unwrap();
        memory.mark(1);
        let report = explore(&memory, &options(80), |crash| recovers(crash, &image, None));
        assert!(report.assert_clean().images > 100, "{report}");
    }
}

/// BK3: over another pool: that one, whole, or a restore to run again, or the new one.
#[test]
fn bk3_a_crash_in_a_restore_over_a_pool() {
    let (_, image) = small();
    for (rounds, model) in [(1, Model::MAPPED), (2, Model::MAPPED), (1, Model::FILE)] {
        let memory = Arc::new(LyingMemory::new(POOL_BYTES_MIN, model));
        Pool::create(&*memory, &Format { uuid: [5; 16], boot_id: BOOT }).unwrap();
        (0..rounds).for_each(|_| put(&open(&memory), "value", b"old"));
        memory.barrier().unwrap();
        memory.forget_trace();
        restore(&mut &image[..], &*memory, RestoreOptions { overwrite: true }, &mut quiet).unwrap();
        memory.mark(1);
        let report = explore(&memory, &options(60), |crash| recovers(crash, &image, Some(b"old")));
        assert!(report.assert_clean().images > 100, "{report}");
    }
}

/// The canary: a restore whose settling does nothing is caught.
#[test]
fn canary_a_restore_that_drains_nothing_is_caught() {
    let (_, image) = small();
    let memory = Arc::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED));
    let deaf = DeafMemory::new(&memory, |call| matches!(call, MemoryCall::Settle(_)));
    restore(&mut &image[..], &*deaf, RestoreOptions::default(), &mut quiet).unwrap();
    memory.fence();
    memory.mark(1);
    let report = explore(&memory, &options(200), |crash| recovers(crash, &image, None));
    report.expect_failure();
}

/// BK3: a crash in a second restore, after a crash in the first, is no worse.
#[test]
fn bk3_restore_interrupted_and_interrupted_again() {
    let (_, image) = small();
    for seed in 0..12 {
        let first = LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED);
        let cut = image.len() * seed as usize / 12;
        assert!(restore(&mut &image[..cut], &first, RestoreOptions::default(), &mut quiet).is_err());
        let second = first.crash(seed);
        restore(&mut &image[..], &second, RestoreOptions::default(), &mut quiet).unwrap();
        second.mark(1);
        let options = ExploreOptions {
            points: Points::Sampled(4),
            samples_per_point: 4,
            images_per_point_max: 4,
            seed,
            only: None,
        };
        let _ = explore(&second, &options, |crash| recovers(crash, &image, None)).assert_clean();
    }
}

/// Every fallible call of a restore fails once: an error, no pool, and the same restore then finishes.
#[test]
fn every_failed_call_leaves_a_restore_to_run_again() {
    let (_, image) = small();
    for model in Model::ALL {
        let run = |fail: Option<u64>| {
            let memory = LyingMemory::new(POOL_BYTES_MIN * 2, model);
            fail.inspect(|call| memory.fail_nth(*call));
            let result = restore(&mut &image[..], &memory, RestoreOptions::default(), &mut quiet);
            assert_eq!(result.is_err(), fail.is_some(), "{fail:?}");
            if fail.is_some() {
                let after = Arc::new(memory.kill());
                match restored(&image, &after, false) {
                    Err(Error::Occupied(_)) => assert!(Superblock::read(&*after).unwrap().state == PoolState::Clean),
                    other => drop(other.unwrap_or_else(|error| panic!("call {fail:?}: {error}"))),
                }
                assert_eq!(get(&open(&after), "value"), b"some bytes");
            }
            memory.calls()
        };
        let calls = run(None);
        assert!(calls >= 3, "{calls}");
        for call in 0..calls {
            run(Some(call));
        }
    }
}
