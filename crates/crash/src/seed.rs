//! Random choices that a seed repeats (splitmix64, Steele et al., OOPSLA 2014).

/// A stream of random choices.
#[derive(Clone, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// Starts the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts the stream of `seed` for step `number`. It does not depend on draws from other streams.
    pub fn of(seed: u64, number: u64) -> Self {
        Self(mix(seed) ^ mix(number ^ 0x5bf0_3635_dcf2_9e1d))
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

/// Spreads `value` over 64 bits.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
