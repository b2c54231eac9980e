//! The decoders of untrusted bytes, for tools that feed them any bytes.

use crate::cache_config::{NumberedConfig, decode_config, encode_config};
use crate::write_buffer::decode_slot_header;
use crate::{CacheConfig, MemberStamp};

/// Returns the configuration in `bytes` under `salt`, or `None` if they hold none of this version.
pub fn config(salt: u32, bytes: &[u8]) -> Option<CacheConfig> {
    decode_config(salt, bytes).map(|numbered| numbered.config)
}

/// Returns the bytes of a configuration under `salt`, or `None` if it is too long.
pub fn config_bytes(salt: u32, config: CacheConfig) -> Option<Vec<u8>> {
    encode_config(salt, &NumberedConfig { sequence: 1, config }).ok()
}

/// Returns the sequence of the slot header in `bytes` under `salt`, or `None` if they are no header.
pub fn slot_sequence(salt: u32, bytes: &[u8; 64]) -> Option<u64> {
    decode_slot_header(salt, bytes).map(|header| header.sequence)
}

/// Returns the stamp of a member in `page`, or `None` if the page has none of this version.
pub fn stamp(page: &[u8]) -> Option<MemberStamp> {
    MemberStamp::decode(page)
}
