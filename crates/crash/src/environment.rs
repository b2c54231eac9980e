//! Parameters of seeded tests from the environment: to repeat a failure, or to try more cases.

use crate::{ExploreOptions, Points};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Returns the seed of this run: FERRITE_SEED, or 1. The seed is printed, so that a failure can be repeated.
pub fn seed() -> u64 {
    let seed = number("FERRITE_SEED").unwrap_or(1);
    println!("FERRITE_SEED={seed}");
    seed
}

/// Returns the number of rounds of a seeded test: FERRITE_ROUNDS, or `usual`.
pub fn rounds(usual: u64) -> u64 {
    number("FERRITE_ROUNDS").unwrap_or(usual)
}

/// Returns options that try every image of a point with at most `images_max` images, and else `samples` images by the
/// seed of this run.
pub fn options(images_max: u64, samples: u64) -> ExploreOptions {
    ExploreOptions {
        seed: seed(),
        images_per_point_max: images_max,
        samples_per_point: samples,
        points: Points::Widest,
        only: None,
    }
}
