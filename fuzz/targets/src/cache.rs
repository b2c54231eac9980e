//! What a cache reads from its pool and its members: a configuration, a slot header, a stamp. Each as found, and with a
//! valid checksum, so that the fields behind it are reached.

use ferrite_cache::{CacheConfig, MemberStamp, decode};
use ferrite_pool::tie::{Generation, TieRecord, TieRole};

const SALT: u32 = 7;

pub fn target(data: &[u8]) {
    check(data);
    check(&repaired(data));
    if let Some(slot) = data.first_chunk() {
        let _ = decode::slot_sequence(SALT, slot);
    }
    if let Some(stamp) = decode::stamp(data) {
        assert_eq!(decode::stamp(&stamp.encode()), Some(stamp), "a stamp that was believed cannot be written back");
    }
}

fn check(data: &[u8]) {
    if let Some(config) = decode::config(SALT, data) {
        let again = decode::config_bytes(SALT, config.clone()).and_then(|bytes| decode::config(SALT, &bytes));
        assert_eq!(again, Some(config), "a configuration that was believed cannot be written back");
    }
}

/// Returns `data` with the length and the checksum of a configuration.
fn repaired(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(data.len().max(24), 0);
    let length = (bytes.len() - 24) as u32;
    crate::put(&mut bytes, 12, &length.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new_with_initial(SALT);
    hasher.update(&bytes[8..]);
    crate::put(&mut bytes, 4, &hasher.finalize().to_le_bytes());
    bytes
}

pub fn seeds() -> Vec<Vec<u8>> {
    let generation = Generation::first(3);
    let record = TieRecord { role: TieRole::Ssd, pool: [1; 16], object: [2; 16], generation, previous: None };
    let stamp = MemberStamp { record, cache: 4, id: 5, leb_bytes: 1 << 20, lebs: 100 };
    let config = decode::config_bytes(SALT, CacheConfig::default()).expect("it fits");
    vec![config, stamp.encode()]
}
