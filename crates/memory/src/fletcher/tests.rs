use super::*;

/// A crash leaves out words: none may go unseen.
#[test]
fn a_word_that_is_another_one_is_seen() {
    let bytes: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let sum = |bytes: &[u8]| {
        let mut sum = Fletcher::default();
        sum.add(bytes);
        sum.finish()
    };
    let right = sum(&bytes);
    for at in (0..bytes.len()).step_by(8) {
        let mut other = bytes.clone();
        other[at..at + 8].fill(0);
        assert_ne!(sum(&other), right, "the word at {at}");
        let next = (at + 64) % bytes.len();
        other[at..at + 8].copy_from_slice(&bytes[next..next + 8]);
        other[next..next + 8].copy_from_slice(&bytes[at..at + 8]);
        assert_ne!(sum(&other), right, "the words at {at} and {next} in each other's place");
    }
}

/// Lines of one byte have a sum that differs from no lines and from lines of another byte.
#[test]
fn lines_that_are_alike_are_told_from_each_other() {
    let sums = (0..=255).flat_map(|byte| {
        (1..=64).map(move |lines| {
            let mut sum = Fletcher::default();
            (0..lines).for_each(|_| sum.add(&[byte; Fletcher::LINE_BYTES]));
            sum.finish()
        })
    });
    // Lines of zeros, however many, are one.
    let others: std::collections::BTreeSet<u32> = sums.collect();
    assert!(others.len() >= 255 * 64, "{}", others.len());
}

/// The sum on the medium is the same on every processor.
#[test]
fn sums_stay_what_they_are() {
    let mut sum = Fletcher::default();
    sum.add(&(0..=255).collect::<Vec<u8>>());
    assert_eq!((Fletcher::default().finish(), sum.finish()), SUMS);
}

const SUMS: (u32, u32) = (3_535_677_659, 481_910_757);
