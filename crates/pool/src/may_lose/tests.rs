//! Content that may be lost, and content that may not.

use std::fs;
use std::path::Path;

use super::*;
use crate::{Claim, claim};
use crate::{Format, Pool};

fn lock(path: &Path) -> Lock {
    match claim(path).expect("claimed") {
        Claim::Ours(lock) => lock,
        Claim::Held(holder) => panic!("{holder}"),
    }
}

fn asked(path: &Path, lose: Option<u64>) -> Result<bool> {
    let image = Some([7; 16]);
    ensure_may_be_lost(&lock(path), &MayLose { lose, image, boot_id: [1; 16] }, &mut |_| true)
}

/// A single nonzero byte is content, and only the exact number of bytes allows its loss.
#[test]
fn content_is_lost_only_by_its_size() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("file");
    for size in [1, 4096, PIECE + 1, 9 * PIECE + 77] {
        for at in [0, size / 2, size - 1] {
            fs::write(&path, vec![0; size as usize]).expect("written");
            assert!(!asked(&path, None).expect("zeros"), "{size}");
            File::options().write(true).open(&path).expect("open").write_all_at(b"x", at).expect("written");
            for lose in [None, Some(0), Some(size + 1), Some(size - 1)] {
                let said = asked(&path, lose).expect_err("it is lost").to_string();
                assert!(said.contains(&format!("--lose {size} ")), "{size} {at} {lose:?}: {said}");
            }
            assert!(asked(&path, Some(size)).expect("it may be lost"));
        }
    }
    fs::write(&path, "").expect("written");
    assert!(!asked(&path, None).expect("nothing"));
}

/// The search skips holes: it passes 1 PiB of holes at once, and finds one byte behind them.
#[test]
fn holes_are_not_read() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("folder");
    let path = folder.path().join("file");
    let file = File::create(&path).expect("made");
    file.set_len(1 << 50).expect("sized");
    assert!(!asked(&path, None).expect("holes"));
    file.write_all_at(b"x", (1 << 50) - 1).expect("written");
    assert!(asked(&path, None).is_err());
}

#[test]
fn a_pool_is_told_and_its_own_half_restored_image_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("file");
    File::create(&path).expect("made").set_len(POOL_BYTES_MIN).expect("sized");
    let held = lock(&path);
    let memory = held.map(&options(&held)).expect("mapped");
    Pool::create(&memory, &Format { uuid: [3; 16], boot_id: [1; 16] }).expect("made");
    drop(held);
    let said = |lose| asked(&path, lose).expect_err("a pool").to_string();
    assert!(said(None).contains("holds pool 03030303-"), "{}", said(None));
    assert!(asked(&path, Some(POOL_BYTES_MIN)).expect("it may be lost"));
    let mut superblock = Superblock::read(&memory).expect("a pool");
    (superblock.state, superblock.image) = (PoolState::Restoring, [8; 16]);
    superblock.advance(&memory).expect("written");
    assert!(said(None).contains("an unfinished restore of another image"), "{}", said(None));
    superblock.image = [7; 16];
    superblock.advance(&memory).expect("written");
    assert!(!asked(&path, None).expect("the same image"));
}

/// The caller can cancel a long search for content.
#[test]
fn a_look_is_watched() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("file");
    fs::write(&path, vec![0; 3 * PIECE as usize]).expect("written");
    let mut seen = Vec::new();
    let stopped = ensure_may_be_lost(&lock(&path), &MayLose::default(), &mut |it| {
        seen.push(it.done);
        seen.len() < 2
    });
    assert!(matches!(stopped, Err(Error::Cancelled(_))));
    assert_eq!(seen, [PIECE, 2 * PIECE]);
}
