//! How words are mixed that a hash or a check on a medium is made of.

/// The factors.
pub const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// The product of two, 128 bits, its halves folded together.
#[inline(always)]
pub fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}
