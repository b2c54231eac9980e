//! Images in files.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

#[test]
fn an_image_goes_to_a_file_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool.image");
    let (pool, _) = mixed();
    let summary = backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), summary.image_bytes);
    assert_eq!(metadata.mode() & 0o077, 0, "what is in a pool is not for everybody");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    let memory = blank(POOL_BYTES_MIN * 2);
    assert_eq!(restore_from(&path, &*memory, Restore::default(), &mut quiet).unwrap(), summary);
    assert!(values(&open(&memory)) == values(&pool));
}

/// BK2: a backup that fails leaves the older image, and nothing beside it.
#[test]
fn bk2_a_failed_backup_leaves_the_older_image() {
    let directory = tempfile::tempdir().unwrap();
    let (path, partial) = (directory.path().join("image"), directory.path().join("image.partial"));
    let (pool, _) = small();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    let old = fs::read(&path).unwrap();
    symlink("/dev/full", &partial).unwrap();
    backup_to(&pool, &path, [8; 16], &mut quiet).unwrap_err();
    assert!(fs::read(&path).unwrap() == old);
    let _ = fs::remove_file(&partial);
    let poisoned = "planted";
    pool.poison(&poisoned);
    assert!(matches!(backup_to(&pool, &path, [8; 16], &mut quiet), Err(Error::Poisoned(_))));
    assert!(fs::read(&path).unwrap() == old);
    assert!(!partial.exists());
}

/// BK2, BK3: stopped by the caller, a backup leaves the older image and a restore what the same restore finishes.
#[test]
fn stopped_in_the_middle_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let (pool, _) = small();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    let old = fs::read(&path).unwrap();
    let said = backup_to(&pool, &path, [8; 16], &mut |_| false).unwrap_err().to_string();
    assert!(said.contains("run it again"), "{said}");
    assert!(fs::read(&path).unwrap() == old);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    let memory = blank(POOL_BYTES_MIN * 2);
    let mut go_on = |it: Progress| it.what != "restoring";
    restore_from(&path, &*memory, Restore::default(), &mut go_on).unwrap_err();
    assert!(matches!(Superblock::read(&*memory).unwrap().state, State::Restoring));
    restore_from(&path, &*memory, Restore::default(), &mut quiet).unwrap();
    assert!(values(&open(&memory)) == values(&pool));
}

/// BK2: no image takes the place of a pool, not even its own's; of a damaged one neither.
#[test]
fn bk2_a_pool_is_not_lost_to_an_image() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let (pool, _) = small();
    let mut bytes = vec![0; 64 << 10];
    pool.memory().load(0, &mut bytes);
    for damaged in [None, Some(20), Some(4096 + 20), Some(0)] {
        damaged.inspect(|at| bytes[*at] ^= 1);
        fs::write(&path, &bytes).unwrap();
        let refused = [backup_to(&pool, &path, IMAGE, &mut quiet), save_to(&pool, &path, IMAGE, &mut quiet)];
        for refused in refused {
            assert!(matches!(&refused, Err(Error::Occupied(why)) if why.contains("holds a pool")), "{refused:?}");
        }
        assert!(fs::read(&path).unwrap() == bytes);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    }
    fs::write(&path, b"text").unwrap();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    backup_to(&pool, &path, [8; 16], &mut quiet).unwrap();
}

/// A device or a folder does not lose its place to an image.
#[test]
fn what_is_no_file_keeps_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let (pool, _) = small();
    let link = directory.path().join("link");
    symlink("/dev/null", &link).unwrap();
    for path in [directory.path(), &link] {
        let said = backup_to(&pool, path, IMAGE, &mut quiet).unwrap_err().to_string();
        assert!(said.contains("is no file"), "{said}");
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

/// A part that a killed backup left is written over; one that a living backup writes is not.
#[test]
fn only_a_dead_backups_part_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let (path, partial) = (directory.path().join("image"), directory.path().join("image.partial"));
    let (pool, _) = small();
    fs::write(&partial, vec![1; 1 << 20]).unwrap();
    let living = File::open(&partial).unwrap();
    living.lock().unwrap();
    assert!(matches!(backup_to(&pool, &path, IMAGE, &mut quiet), Err(Error::Busy(_))));
    assert_eq!(fs::metadata(&partial).unwrap().len(), 1 << 20, "untouched");
    drop(living);
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    assert!(verify(&mut &fs::read(&path).unwrap()[..], &mut quiet).is_ok());
}

/// A damaged file is refused before the target is touched.
#[test]
fn a_damaged_file_does_not_touch_the_target() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let (_, mut image) = small();
    let last = image.len() - 1;
    image[last] ^= 1;
    fs::write(&path, &image).unwrap();
    let (memory, pool) = make(POOL_BYTES_MIN);
    drop(pool);
    let before = memory.snapshot();
    let result = restore_from(&path, &*memory, Restore { force: true }, &mut quiet);
    assert!(matches!(result, Err(Error::BadImage { .. })));
    assert!(memory.snapshot() == before);
}
