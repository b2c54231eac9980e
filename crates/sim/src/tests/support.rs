//! Helpers that the crate's tests share.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Returns the configuration of a model test: `usual` cases or FERRITE_ROUNDS, chosen by FERRITE_SEED, which is
/// printed.
pub fn cases(usual: u32) -> ProptestConfig {
    let seed = number("FERRITE_SEED").unwrap_or(1);
    println!("FERRITE_SEED={seed}");
    let cases = number("FERRITE_ROUNDS").map_or(usual, |rounds| rounds as u32);
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..ProptestConfig::default() }
}
