//! Pools that are closed and opened again.

use ferrite_fs::{Credentials, FileKind, Ino, NewFile};

use super::*;

const NEW: NewFile =
    NewFile { kind: FileKind::File, mode: 0o644, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };

fn tree(pool: &Arc<OpenPool>) -> PoolTree {
    PoolTree { open_pool: Arc::clone(pool), name: "files", cached: false, super_threshold_bytes: None, ssd: None }
}

#[test]
fn files_outlive_the_closing_of_their_pool() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let pool = OpenPool::new(place.path(), 16 << 20).expect("a pool");
    tree(&pool).make().expect("a file system");
    let fs = tree(&pool).open().expect("it opens");
    fs.create_file(Ino::ROOT, b"kept", &NEW).expect("made");
    drop(fs);
    let closed = pool.close().expect("nothing uses it");
    assert!(closed.path().starts_with(place.path()));
    let pool = closed.open().expect("it opens again");
    tree(&pool).open().expect("it opens").lookup(Ino::ROOT, b"kept").expect("it is still there");
}

#[test]
fn a_file_system_that_is_made_again_is_empty() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let pool = OpenPool::new(place.path(), 16 << 20).expect("a pool");
    let tree = tree(&pool);
    tree.make().expect("a file system");
    tree.open().expect("it opens").create_file(Ino::ROOT, b"old", &NEW).expect("made");
    tree.make().expect("a file system again");
    tree.open().expect("it opens").lookup(Ino::ROOT, b"old").expect_err("it is removed");
}

#[test]
fn a_pool_and_its_folder_are_removed_with_their_last_user() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let pool = OpenPool::of_small_pages(place.path(), 16 << 20).expect("a pool");
    assert!(pool.page_bytes() >= 4096);
    assert_eq!(std::fs::read_dir(place.path()).expect("there").count(), 1);
    drop(pool.close().expect("nothing uses it"));
    assert_eq!(std::fs::read_dir(place.path()).expect("there").count(), 0);
}
