//! The distribution of random numbers.

use super::*;

/// A pattern that misses part of the disk measures a smaller, better cached disk.
#[test]
fn every_place_is_drawn_about_equally_often() {
    let (mut random, mut counts) = (BenchRandom::new(7), [0_u32; 16]);
    (0..16_000).for_each(|_| counts[random.below(16) as usize] += 1);
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}
