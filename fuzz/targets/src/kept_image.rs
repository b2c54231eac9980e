//! Kept images, as found and with a valid checksum of the newest header. A whole save is restored, and the resulting pool
//! is opened and checked.

use std::sync::{Arc, LazyLock};

use ferrite_disk::{Access, Disk, RamDisk};
use ferrite_memory::{MapOptions, Mapped, Memory};
use ferrite_pool::backup::{KeptImage, RestoreOptions, SaveOptions, restore_kept, verify_kept};
use ferrite_pool::check::{TagOwners, check};
use ferrite_pool::layout::{PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool, PutOptions};

const HEADER: usize = 128;
/// Blocks at the start of an image that a seed has: both headers, and the pages of a small pool.
const SEED_BLOCKS: usize = 64;

pub fn target(data: &[u8]) {
    let mut inputs = vec![data.to_vec(), repaired(data)];
    inputs.dedup();
    for bytes in inputs {
        let disk = disk(&bytes);
        let Ok(summary) = verify_kept(&*disk, &mut |_| true) else {
            let _ = KeptImage::open(Box::new(disk));
            continue;
        };
        if summary.pool_bytes <= POOL_BYTES_MIN {
            let memory = memory();
            restore_kept(&*disk, &*memory, RestoreOptions::default(), &mut |_| true).expect("it verified");
            let _ = check(&memory, &TagOwners::default(), &mut |_| ());
        }
    }
}

/// Returns a disk with room for an image of the smallest pool, which starts with `bytes`.
fn disk(bytes: &[u8]) -> Arc<RamDisk> {
    static SIZE: LazyLock<u64> = LazyLock::new(|| KeptImage::blank(&pool(), [3; 16]).1);
    let (size, disk) = (*SIZE, Arc::new(RamDisk::new(*SIZE)));
    let len = (bytes.len() as u64).min(size) / PAGE * PAGE;
    disk.write(0, &bytes[..len as usize], Access::Cached).expect("memory does not fail");
    disk
}

fn memory() -> Arc<dyn Memory> {
    Arc::new(Mapped::anonymous(POOL_BYTES_MIN, &MapOptions::default()).expect("memory for a pool"))
}

fn pool() -> Pool {
    let memory = memory();
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: [2; 16] }).expect("a pool");
    Pool::open(memory, [2; 16]).expect("opens").0
}

/// Returns the image with the checksums of both headers corrected. The layout is from docs/format.md.
fn repaired(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    for at in [0, PAGE as usize] {
        let Some(header) = bytes.get(at..at + HEADER) else { continue };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&header[..12]);
        hasher.update(&header[16..]);
        crate::put(&mut bytes, at + 12, &hasher.finalize().to_le_bytes());
    }
    bytes
}

pub fn seeds() -> Vec<Vec<u8>> {
    let pool = pool();
    let (start, size) = KeptImage::blank(&pool, [3; 16]);
    let disk = Arc::new(RamDisk::new(size));
    disk.write(0, &start, Access::Cached).expect("memory does not fail");
    let mut image = KeptImage::open(Box::new(Arc::clone(&disk))).expect("a blank image");
    let options = SaveOptions { nonce: 1, time_s: 1, beside_clients: false, snapshot: None };
    let mut saved = || {
        image.save(&pool, &options, &mut |_| true).expect("nothing fails");
        let mut bytes = vec![0; SEED_BLOCKS * PAGE as usize];
        disk.read(0, &mut bytes).expect("memory does not fail");
        bytes
    };
    saved();
    pool.put("value", &mut &b"some bytes"[..], &PutOptions::default()).expect("room");
    vec![saved()]
}

#[cfg(test)]
mod tests;
