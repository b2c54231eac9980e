//! What whoever runs tests asks of those that are by seed, by the environment: to see a failure again, or to try more.

use crate::{Options, Points};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// The seed of this run: FERRITE_SEED, or 1. It is printed, so that a failure can be seen again.
pub fn seed() -> u64 {
    let seed = number("FERRITE_SEED").unwrap_or(1);
    println!("FERRITE_SEED={seed}");
    seed
}

/// How often to repeat what is by seed: FERRITE_ROUNDS, or `usual` times.
pub fn rounds(usual: u64) -> u64 {
    number("FERRITE_ROUNDS").unwrap_or(usual)
}

/// Every image of every point where there are at most `images_max`, else `samples` of them by the seed of this run.
pub fn options(images_max: u64, samples: u64) -> Options {
    Options {
        seed: seed(),
        images_per_point_max: images_max,
        samples_per_point: samples,
        points: Points::Widest,
        only: None,
    }
}
