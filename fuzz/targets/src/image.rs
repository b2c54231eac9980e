//! Backup images, as found and with valid checksums. A whole image is restored, and the resulting pool is opened,
//! checked and repaired.

use std::sync::Arc;

use ferrite_memory::{MapOptions, Mapped, Memory};
use ferrite_pool::backup::{RestoreOptions, backup, restore, verify};
use ferrite_pool::check::{TagOwners, check, repair};
use ferrite_pool::layout::{PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool, PutOptions};

const HEADER: usize = 128;
const FRAME: usize = 192;
const TRAILER: usize = 64;

pub fn target(data: &[u8]) {
    for bytes in [data.to_vec(), repaired(data)] {
        let Ok(summary) = verify(&mut &bytes[..], &mut |_| true) else { continue };
        assert_eq!(summary.image_bytes, bytes.len() as u64, "bytes behind the end were believed");
        if summary.pool_bytes <= POOL_BYTES_MIN {
            restored(&bytes);
        }
    }
}

fn restored(bytes: &[u8]) {
    let memory = memory();
    restore(&mut &bytes[..], &*memory, RestoreOptions::default(), &mut |_| true).expect("it verified");
    let found = check(&memory, &TagOwners::default(), &mut |_| ());
    let mended = repair(&memory, &TagOwners::default(), &[], &mut |_| ()).expect("memory does not fail");
    assert_eq!(found.opened, mended.opened);
    let again = check(&memory, &TagOwners::default(), &mut |_| ());
    assert!(again.findings.len() <= found.findings.len() + mended.findings.len(), "a repair made it worse");
}

fn memory() -> Arc<dyn Memory> {
    Arc::new(Mapped::anonymous(POOL_BYTES_MIN, &MapOptions::default()).expect("memory for a pool"))
}

/// Returns the image with every checksum corrected, as far as it has the form of one. The layout is from
/// docs/format.md.
fn repaired(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if bytes.len() >= HEADER && bytes[8] == 2 {
        let stamp = crc(0, &[b"FTIE", &2_u16.to_le_bytes(), &bytes[72..88]]);
        crate::put(&mut bytes, 88, &stamp.to_le_bytes());
    }
    let Some(header) = bytes.get(..HEADER) else { return bytes };
    let salt = crc(0, &[&header[..12], &header[16..]]);
    crate::put(&mut bytes, 12, &salt.to_le_bytes());
    let (mut at, mut chain, mut frames, mut pages) = (HEADER, crc32fast::Hasher::new(), 0_u64, 0_u64);
    while bytes.get(at..at + 4) == Some(b"FRAM") && bytes.len() >= at + FRAME {
        let carried: u64 = bytes[at + 128..at + FRAME].iter().map(|byte| u64::from(byte.count_ones())).sum();
        let end = at + FRAME + (carried * PAGE) as usize;
        let Some(body) = bytes.get(at + 8..end) else { break };
        let sum = crc(salt, &[body]);
        crate::put(&mut bytes, at + 4, &sum.to_le_bytes());
        chain.update(&sum.to_le_bytes());
        (at, frames, pages) = (end, frames + 1, pages + carried);
    }
    crate::put(&mut bytes, at + 8, &frames.to_le_bytes());
    crate::put(&mut bytes, at + 16, &pages.to_le_bytes());
    crate::put(&mut bytes, at + 24, &chain.finalize().to_le_bytes());
    if let Some(trailer) = bytes.get(at + 8..at + TRAILER) {
        let sum = crc(salt, &[trailer]);
        crate::put(&mut bytes, at + 4, &sum.to_le_bytes());
    }
    bytes
}

fn crc(salt: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

pub fn seeds() -> Vec<Vec<u8>> {
    let memory = memory();
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: [2; 16] }).expect("a pool");
    let (pool, _) = Pool::open(memory, [2; 16]).expect("opens");
    let image = || {
        let mut bytes = Vec::new();
        backup(&pool, &mut bytes, [3; 16], &mut |_| true).expect("nothing fails");
        bytes
    };
    let empty = image();
    pool.put("value", &mut &b"some bytes"[..], &PutOptions::default()).expect("room");
    vec![empty, image()]
}

#[cfg(test)]
mod tests;
