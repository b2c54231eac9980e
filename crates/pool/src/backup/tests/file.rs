//! Images in files.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

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
    assert_eq!(restore_from(&path, &*memory, RestoreOptions::default(), &mut quiet).unwrap(), summary);
    assert!(values(&open(&memory)) == values(&pool));
}

/// A pipe would be waited for, and read to its end once.
#[test]
fn an_image_in_a_pipe_is_refused_before_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let memory = blank(POOL_BYTES_MIN);
    let (message, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let opened = open_image(&path).map(drop);
        message.send((opened, restore_from(&path, &*memory, RestoreOptions::default(), &mut quiet).map(drop)))
    });
    let (opened, restored) = ended.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for who writes");
    for refused in [opened, restored] {
        assert!(matches!(&refused, Err(Error::Limit(why)) if why.contains("copy it to a file")), "{refused:?}");
    }
}

/// BK2: a backup that fails leaves the older image, and nothing beside it.
#[test]
fn bk2_a_failed_backup_leaves_the_older_image() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let (pool, _) = small();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    let old = fs::read(&path).unwrap();
    let poisoned = "planted";
    pool.poison(&poisoned);
    assert!(matches!(backup_to(&pool, &path, [8; 16], &mut quiet), Err(Error::Poisoned(_))));
    assert!(fs::read(&path).unwrap() == old);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// What writes an image of a pool to a file.
type Backup = dyn Fn(&Pool, &Path, &mut dyn FnMut(Progress) -> bool) -> Result<ImageSummary>;

/// BK2: wherever `backup` is stopped the older image stays, and nothing beside it.
fn images_stay(backup: &Backup) -> std::result::Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let (pool, _) = small();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    let old = fs::read(&path).unwrap();
    for step in 0.. {
        let mut left = step;
        let done = backup(&pool, &path, &mut |_| {
            left -= 1;
            left >= 0
        });
        if done.is_ok() {
            assert!(step > 3, "{step} steps");
            return Ok(());
        }
        if fs::read(&path).unwrap() != old || fs::read_dir(directory.path()).unwrap().count() != 1 {
            return Err(format!("BK2: stopped in step {step}"));
        }
    }
    unreachable!("it ends")
}

/// BK2: `backup` puts no image in the place of a pool, not even of its own's, nor of a damaged one.
fn pools_stay(backup: &Backup) -> std::result::Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let (pool, _) = small();
    let mut bytes = vec![0; 64 << 10];
    pool.memory().load(0, &mut bytes);
    for damaged in [None, Some(20), Some(4096 + 20), Some(0)] {
        damaged.inspect(|at| bytes[*at] ^= 1);
        fs::write(&path, &bytes).unwrap();
        let refused = backup(&pool, &path, &mut quiet);
        if !matches!(&refused, Err(Error::Occupied(why)) if why.contains("holds a pool")) {
            return Err(format!("BK2: {refused:?}"));
        }
        assert!(fs::read(&path).unwrap() == bytes);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    }
    Ok(())
}

#[test]
fn bk2_a_pool_is_not_lost_to_an_image() {
    pools_stay(&|pool, path, watch| backup_to(pool, path, IMAGE, watch)).unwrap();
    pools_stay(&|pool, path, watch| save_to(pool, path, IMAGE, watch)).unwrap();
    // One that is made while the image is written.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let (pool, _) = small();
    let mut bytes = vec![0; 64 << 10];
    pool.memory().load(0, &mut bytes);
    let refused = backup_to(&pool, &path, IMAGE, &mut |_| fs::write(&path, &bytes).is_ok());
    assert!(matches!(refused, Err(Error::Occupied(_))), "{refused:?}");
    assert!(fs::read(&path).unwrap() == bytes);
    // What holds none gives its place.
    fs::write(&path, b"text").unwrap();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
}

#[test]
fn canary_an_image_in_the_place_of_a_pool_is_caught() {
    let unchecked: &Backup = &|pool, path, watch| backup(pool, &mut File::create(path).unwrap(), IMAGE, watch);
    pools_stay(unchecked).unwrap_err();
}

#[test]
fn canary_an_image_that_is_written_where_another_was_is_caught() {
    images_stay(&|pool, path, watch| backup(pool, &mut File::create(path).unwrap(), IMAGE, watch)).unwrap_err();
}

/// BK2, BK3: stopped by the caller, a backup leaves the older image and a restore what the same restore finishes.
#[test]
fn stopped_in_the_middle_nothing_is_lost() {
    images_stay(&|pool, path, watch| backup_to(pool, path, [8; 16], watch)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let (pool, _) = small();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    let said = backup_to(&pool, &path, [8; 16], &mut |_| false).unwrap_err().to_string();
    assert!(said.contains("run it again"), "{said}");
    let memory = blank(POOL_BYTES_MIN * 2);
    let mut go_on = |it: Progress| it.what != "restoring";
    restore_from(&path, &*memory, RestoreOptions::default(), &mut go_on).unwrap_err();
    assert!(matches!(Superblock::read(&*memory).unwrap().state, PoolState::Restoring));
    restore_from(&path, &*memory, RestoreOptions::default(), &mut quiet).unwrap();
    assert!(values(&open(&memory)) == values(&pool));
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
        assert!(said.contains("is not a plain file"), "{said}");
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

/// A part that a killed backup left is removed; one that a living backup writes is not.
#[test]
fn only_a_dead_backups_part_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, partial) = (directory.path().join("image"), directory.path().join("image.partial"));
    let (pool, _) = small();
    fs::write(&path, "older").unwrap();
    fs::write(&partial, vec![1; 1 << 20]).unwrap();
    let living = File::open(&partial).unwrap();
    living.lock().unwrap();
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    assert_eq!(fs::metadata(&partial).unwrap().len(), 1 << 20, "untouched");
    drop(living);
    backup_to(&pool, &path, IMAGE, &mut quiet).unwrap();
    assert!(!partial.exists());
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
    let result = restore_from(&path, &*memory, RestoreOptions { overwrite: true }, &mut quiet);
    assert!(matches!(result, Err(Error::BadImage { .. })));
    assert!(memory.snapshot() == before);
}
