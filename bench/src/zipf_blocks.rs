//! Blocks at random, some of them far more often than others.

use crate::bench_random::BenchRandom;

/// Draws blocks by Zipf's law: the block of rank r with a probability that falls as r to the power -theta.
///
/// A rank's probability is the integral of the law over the rank, half a rank up and down, which is inverted easily.
pub struct ZipfBlocks {
    theta: f64,
    /// The block of each rank.
    blocks: Vec<u32>,
}

impl ZipfBlocks {
    /// The law with `theta`, from 0 (uniform) to below 1, over `count` blocks, whose ranks `seed` chooses.
    pub fn new(count: u32, theta: f64, seed: u64) -> Self {
        let mut random = BenchRandom::new(seed);
        let mut blocks: Vec<u32> = (0..count).collect();
        for last in (1..blocks.len()).rev() {
            blocks.swap(last, random.below(last as u64 + 1) as usize);
        }
        Self { theta, blocks }
    }

    /// Draws a block.
    pub fn draw(&self, random: &mut BenchRandom) -> u32 {
        let part = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let power = |rank: f64| rank.powf(1.0 - self.theta);
        let (first, last) = (power(0.5), power(self.blocks.len() as f64 + 0.5));
        let rank = (first + part * (last - first)).powf(1.0 / (1.0 - self.theta));
        self.blocks[((rank - 0.5) as usize).min(self.blocks.len() - 1)]
    }
}

#[cfg(test)]
mod tests;
