//! O1: a lock is free once it is dropped.

use ferrite_memory::planted::plant;

use super::*;

fn pool() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pool");
    File::create(&path).expect("pool");
    (folder, path)
}

fn ours(claim: Claim) -> Lock {
    match claim {
        Claim::Ours(lock) => lock,
        Claim::Held(holder) => panic!("{holder}"),
    }
}

/// Whether a pool is free whose lock `drops` drops, while something else has its descriptor.
fn is_free_after(drops: impl FnOnce(Lock)) -> bool {
    let (_folder, path) = pool();
    let lock = ours(claim(&path).expect("claim"));
    let _childs = lock.file().try_clone().expect("a copy");
    drops(lock);
    matches!(claim(&path).expect("claim"), Claim::Ours(_))
}

/// O1: nor has what is about to call exec, which has all descriptors until then.
#[test]
fn o1_a_dropped_lock_is_free_whoever_has_its_descriptor() {
    assert!(is_free_after(drop));
}

#[test]
fn canary_a_lock_that_is_only_closed_is_found() {
    let is_free = is_free_after(|lock| {
        let _bug = plant("pool: lock only closed");
        drop(lock);
    });
    assert!(!is_free);
}

/// O1: a child that has the mapping has no part in the lock either.
#[test]
fn o1_what_is_mapped_of_a_pool_does_not_keep_its_lock() {
    let (_folder, path) = pool();
    let lock = ours(claim(&path).expect("claim"));
    let mapped = lock.reopen().expect("reopened");
    mapped.try_lock().expect_err("another description");
    drop(lock);
    ours(claim(&path).expect("free"));
}
