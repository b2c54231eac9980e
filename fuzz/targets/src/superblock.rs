//! The superblock's slot, as found and with a valid checksum, so that the fields behind it are reached.

use ferrite_pool::layout::POOL_BYTES_MIN;
use ferrite_pool::{PoolState, Superblock};

const SLOT_BYTES: usize = 88;
const CRC_AT: usize = 12;

pub fn target(data: &[u8]) {
    check(data);
    check(&repaired(data));
}

fn check(data: &[u8]) {
    if let Ok(superblock) = Superblock::decode(data) {
        assert!(superblock.size >= POOL_BYTES_MIN, "a size that no pool has was believed");
        let again = Superblock::decode(&superblock.encode());
        assert_eq!(again.ok(), Some(superblock), "what was believed cannot be written back");
    }
}

fn repaired(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(SLOT_BYTES, 0);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..CRC_AT]);
    hasher.update(&bytes[CRC_AT + 4..]);
    crate::put(&mut bytes, CRC_AT, &hasher.finalize().to_le_bytes());
    bytes
}

pub fn seeds() -> Vec<Vec<u8>> {
    let states = [PoolState::Clean, PoolState::Open, PoolState::Restoring];
    let superblock = |version, state| Superblock {
        version,
        generation: 7,
        uuid: [1; 16],
        size: POOL_BYTES_MIN,
        state,
        boot_id: [2; 16],
        image: [3; 16],
        trusted: 4,
    };
    let of_version = |version| states.map(|state| superblock(version, state).encode());
    [of_version(1), of_version(2)].concat()
}

#[cfg(test)]
mod tests;
