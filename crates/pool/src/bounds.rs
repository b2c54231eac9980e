//! Bounds of the numbers that recovery goes on counting from.
//!
//! A checksum does not tell whose a number is: a pool from elsewhere holds what its maker liked, up to the last number
//! that its place has room for. So opening refuses a number from half of that room on. No pool comes there in years of
//! work, and no count that begins below the bound runs out of room.

/// Sequences of transactions and checkpoints, positions and entries of logs, versions of values. A sealed word has room for
/// twice as many.
pub const SEQUENCE_BOUND: u64 = 1 << 51;

/// Generations of a superblock, two for each opening and closing.
pub(crate) const GENERATION_BOUND: u64 = 1 << 30;

/// Generations of tags and serials of grants, which go on from a superblock's generation in the upper half.
pub(crate) const SERIAL_BOUND: u64 = (GENERATION_BOUND + 1) << 32;

/// Says that `number` is none to go on counting from.
pub fn beyond(what: &str, number: u64) -> String {
    format!("{what}, {number}, which no pool counts up to,")
}
