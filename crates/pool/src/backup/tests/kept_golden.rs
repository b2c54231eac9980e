//! A kept image of format version 4, as it was written: every later version must restore it, and go on with it.

use std::path::{Path, PathBuf};

use ferrite_disk::{Access, Disk, RamDisk};

use super::kept::{FROZEN, image_disk, kept, restored_kept};
use super::*;
use crate::backup::kept_format::capacity_bytes;
use crate::tests::support::{lines_of, of_lines};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/kept-v{KEPT_VERSION}.lines"))
}

/// An image with two saves, which share most pages.
fn make() -> Vec<u8> {
    let (_, pool) = super::make(POOL_BYTES_MIN);
    let disk = image_disk(&pool);
    let mut image = kept(&disk);
    put(&pool, "value", b"at the first save");
    put(&pool, "zeros", &[0; 20_000]);
    put(&pool, "removed", b"before the second save");
    image.save(&pool, &FROZEN, &mut quiet).unwrap();
    put(&pool, "value", b"at the second save");
    pool.remove_tag(&pool.tag("removed").unwrap()).unwrap();
    image.save(&pool, &SaveOptions { nonce: 8, time_s: FROZEN.time_s + 300, ..FROZEN }, &mut quiet).unwrap();
    let mut bytes = vec![0; disk.geometry().size as usize];
    disk.read(0, &mut bytes).unwrap();
    bytes
}

fn restored_values(disk: &Arc<RamDisk>) -> (Pool, BTreeMap<String, Vec<u8>>) {
    let memory = blank(POOL_BYTES_MIN);
    restored_kept(disk, &memory).unwrap();
    ensure_sound(&memory);
    let pool = open(&memory);
    let found = values(&pool);
    (pool, found)
}

/// `FERRITE_GOLDEN=write cargo test -p ferrite-pool kept_images_of_version_4` rewrites it, which only a new format version
/// may require.
#[test]
fn kept_images_of_version_4_are_restored_and_go_on() {
    if std::env::var("FERRITE_GOLDEN").is_ok_and(|value| value == "write") {
        let what = format!("A kept image of format version {KEPT_VERSION}");
        std::fs::write(path(), lines_of(&what, &make())).unwrap();
    }
    let text = std::fs::read_to_string(path()).expect("the image is kept");
    let disk = Arc::new(RamDisk::new(capacity_bytes(POOL_BYTES_MIN)));
    disk.write(0, &of_lines(&text, disk.geometry().size), Access::Cached).unwrap();
    let value = |bytes: &[u8]| ("value".to_string(), bytes.to_vec());
    let zeros = ("zeros".to_string(), vec![0; 20_000]);

    let (pool, found) = restored_values(&disk);
    assert_eq!(found, [value(b"at the second save"), zeros.clone()].into());
    assert_eq!(pool.superblock().uuid, [1; 16]);
    let mut image = kept(&disk);
    let last = image.last().unwrap();
    assert_eq!((last.pool_bytes, last.time_s), (POOL_BYTES_MIN, FROZEN.time_s + 300));
    put(&pool, "value", b"at the third save");
    let saved = image.save(&pool, &FROZEN, &mut quiet).unwrap();
    assert!(saved.changed_bytes < 20 * PAGE, "the sums of the image are known: {saved:?}");
    assert_eq!(restored_values(&disk).1, [value(b"at the third save"), zeros.clone()].into());

    // The header of the second save is in block 0. Without it the first save counts, whose blocks were not reused.
    disk.write(0, &of_lines(&text, disk.geometry().size), Access::Cached).unwrap();
    disk.write(0, &[0; PAGE as usize], Access::Cached).unwrap();
    let removed = ("removed".to_string(), b"before the second save".to_vec());
    assert_eq!(restored_values(&disk).1, [removed, value(b"at the first save"), zeros].into());
}
