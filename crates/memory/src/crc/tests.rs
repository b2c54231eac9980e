use super::*;

/// The checksum on the medium is the one that everybody computes, or a pool would be damaged on another processor.
#[test]
fn the_sum_is_that_of_zlib() {
    let bytes: Vec<u8> = (0..600_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for initial in [0, 1, 0x8000_0000, 0xdead_beef, u32::MAX] {
        for len in 0..300 {
            for at in [0, 1, 7, 64, 299] {
                let bytes = &bytes[at..at + len];
                assert_eq!(crc32(initial, bytes), by_table(initial, bytes), "{len} bytes from {at}, {initial:#x}");
            }
        }
    }
    for len in 0..300 {
        let (head, words) = ((0x0403_0201, 0x0c0b_0a09_0807_0605), [0x1413_1211_100f_0e0d]);
        let all = [&(1..21).collect::<Vec<u8>>()[..], &bytes[..len]].concat();
        assert_eq!(crc32_of_words(7, head, words, &bytes[..len]), by_table(7, &all), "{len} bytes behind words");
    }
    assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32(0, b"123456789 and 16 more bytes"), crc32(crc32(0, b"123456789"), b" and 16 more bytes"));
}
