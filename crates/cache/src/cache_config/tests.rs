//! The configuration (CC1).

use super::*;

fn numbered(sequence: u64) -> NumberedConfig {
    NumberedConfig { sequence, config: CacheConfig { is_complete: true, next_ssd: 3, ..CacheConfig::default() } }
}

#[test]
fn cc1_damaged_configuration_does_not_count() {
    let bytes = encode_config(9, &numbered(4)).expect("it fits");
    assert_eq!(decode_config(9, &bytes), Some(numbered(4)));
    for byte in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 0x10;
        assert_eq!(decode_config(9, &flipped), None, "byte {byte}");
        assert_eq!(decode_config(9, &bytes[..byte]), None, "{byte} bytes");
    }
    assert_eq!(decode_config(8, &bytes), None, "the salt of another cache");
}
