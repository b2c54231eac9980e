use super::*;

/// The checksum on the medium is the one that everybody computes, or a pool would be damaged on another processor.
#[test]
fn the_sum_is_that_of_zlib() {
    let bytes: Vec<u8> = (0..8192_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (len, at) in [(256, 0), (512, 3), (4096, 0), (4096, 64), (7936, 1)] {
        let from = &bytes[at..at + len];
        let mut into = vec![0; len];
        // SAFETY: two slices of `len` bytes.
        let sum = unsafe { copy_and_sum(into.as_mut_ptr(), from.as_ptr(), len) };
        let Some(sum) = sum else { return println!("skipped: this processor has no AVX-512 with VPCLMULQDQ") };
        assert!(into == from);
        assert_eq!(sum, crc32fast::hash(from), "{len} bytes from {at}");
    }
}

#[test]
fn what_is_no_whole_steps_is_left_to_others() {
    let (from, mut into) = ([1; 300], [0; 300]);
    for len in [0, 255, 300] {
        // SAFETY: two arrays longer than `len`.
        assert_eq!(unsafe { copy_and_sum(into.as_mut_ptr(), from.as_ptr(), len) }, None);
    }
    assert_eq!(into, [0; 300]);
}
