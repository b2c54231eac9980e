//! BK7: which image gives its place to which.

use std::fs;
use std::path::Path;

use super::*;

fn write(pool: &Pool, path: &Path, number: u8) -> Result<ImageSummary> {
    backup_to(pool, path, [number; 16], &mut quiet)
}

/// Refused with words that name both, and without a touch.
fn is_refused(pool: &Pool, path: &Path, words: &[&str]) {
    let before = fs::read(path).unwrap();
    for save in [backup_to, save_to] {
        let message = save(pool, path, [99; 16], &mut quiet).unwrap_err().to_string();
        assert!(words.iter().all(|words| message.contains(words)) && message.contains("ame another file"), "{message}");
    }
    assert!(fs::read(path).unwrap() == before);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
}

fn restored_from(path: &Path) -> Pool {
    let memory = blank(POOL_BYTES_MIN);
    restore_from(path, &*memory, RestoreOptions::default(), &mut quiet).unwrap();
    open(&memory)
}

#[test]
fn bk7_an_image_of_another_pool_stays() {
    let (folder, (pool, _)) = (tempfile::tempdir().unwrap(), small());
    let path = folder.path().join("image");
    let memory = blank(POOL_BYTES_MIN);
    Pool::create(&*memory, &Format { uuid: [9; 16], boot_id: BOOT }).unwrap();
    let other = open(&memory);
    write(&other, &path, 1).unwrap();
    is_refused(&pool, &path, &["is an image of another pool, 09090909", "this pool is 01010101"]);
    write(&other, &path, 2).unwrap();
}

/// A pool that was restored from yesterday's image does not write over today's; the pool of today does.
#[test]
fn bk7_a_later_image_stays_and_an_older_one_gives_its_place() {
    let (folder, (pool, first)) = (tempfile::tempdir().unwrap(), small());
    let path = folder.path().join("image");
    write(&pool, &path, 1).unwrap();
    let yesterday = fs::read(&path).unwrap();
    let restored = restored_from(&path);
    write(&restored, &path, 2).expect("what it was restored from is its own");
    fs::write(&path, &yesterday).unwrap();
    write(&pool, &path, 3).unwrap();
    fs::write(&path, &yesterday).unwrap();
    write(&pool, &path, 4).expect("an older image gives its place");
    let today = fs::read(&path).unwrap();
    fs::write(&path, &yesterday).unwrap();
    let again = restored_from(&path);
    fs::write(&path, &today).unwrap();
    is_refused(&again, &path, &["is an image of generation 4.", "knows of 2."]);
    // Of one count, and of two histories.
    write(&again, &folder.path().join("other"), 5).unwrap();
    fs::remove_file(folder.path().join("other")).unwrap();
    write(&again, &folder.path().join("other"), 6).unwrap();
    fs::remove_file(folder.path().join("other")).unwrap();
    is_refused(&again, &path, &["is an image of generation 4.", "knows of 4."]);
    // A pool that never wrote an image of this format, and what is none.
    fs::write(&path, &first).unwrap();
    let (_, fresh) = make(POOL_BYTES_MIN);
    is_refused(&fresh, &path, &["knows of none"]);
    fs::write(&path, b"text").unwrap();
    write(&fresh, &path, 7).unwrap();
}

/// BK7, E4: a restored pool has the format of what is in it.
#[test]
fn bk7_a_restored_pool_is_of_the_version_that_its_ties_need() {
    let (folder, (pool, _)) = (tempfile::tempdir().unwrap(), small());
    let path = folder.path().join("image");
    write(&pool, &path, 1).unwrap();
    assert_eq!((pool.superblock().version, restored_from(&path).superblock().version), (2, 2));
}

/// BK7 is broken: an image is written without a look at what is there.
#[test]
fn canary_a_later_image_that_is_written_over_is_caught() {
    let (folder, (pool, _)) = (tempfile::tempdir().unwrap(), small());
    let path = folder.path().join("image");
    write(&pool, &path, 1).unwrap();
    let restored = restored_from(&path);
    write(&pool, &path, 2).unwrap();
    let before = fs::read(&path).unwrap();
    backup(&restored, &mut fs::File::create(&path).unwrap(), IMAGE, &mut quiet).unwrap();
    assert!(fs::read(&path).unwrap() != before);
}
