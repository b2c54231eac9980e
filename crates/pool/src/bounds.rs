//! Bounds of the stored numbers from which recovery continues to count.
//!
//! A right checksum does not make a number plausible: the maker of a foreign pool can store any number that fits the
//! field. So opening refuses numbers from half of the field's range on. No pool reaches a bound in years of work, and a
//! count that begins below it never overflows.

/// The bound of sequences of transactions and checkpoints, of positions and entries of logs, and of versions of values.
/// A checked word has room for twice as many.
pub const SEQUENCE_BOUND: u64 = 1 << 51;

/// The bound of a superblock's generation, which advances by two at each opening and each closing.
pub(crate) const GENERATION_BOUND: u64 = 1 << 30;

/// The bound of the generations of tags and the serials of grants. Both continue from a superblock's generation in the
/// upper half.
pub(crate) const SERIAL_BOUND: u64 = (GENERATION_BOUND + 1) << 32;

/// Returns the beginning of a message that refuses `number` as out of bounds.
pub fn out_of_bounds(what: &str, number: u64) -> String {
    format!("{what}, {number}, which no pool counts up to,")
}
