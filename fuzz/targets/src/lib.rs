//! Readers of untrusted bytes, each as a plain function of those bytes.
//!
//! A target panics when a decoder breaks its promise: it accepts any bytes without a panic, and an accepted value is
//! sound. `cargo fuzz run NAME` looks for such bytes; `cargo test -p ferrite-fuzz` replays the findings, and variants
//! of valid input, on a stable toolchain.

mod block_trace;
mod cache;
mod control;
mod database;
mod image;
mod kept_image;
mod nbd;
mod record;
mod segment;
mod slots;
mod superblock;
mod tags;
mod trace;
mod transaction;

use ferrite_sim::block_trace::BlockFormat;
use ferrite_sim::trace::AccessFormat;

/// A decoder under test.
pub struct FuzzTarget {
    /// The name for `cargo fuzz run` and the folder in fuzz/corpus.
    pub name: &'static str,
    /// Panics on bytes that the decoder should have survived or refused.
    pub run: fn(&[u8]),
    /// Valid input, made by Ferrite's own encoders, so that it never becomes outdated.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Defines a target of the functions in `$module`, with further arguments that select a format.
macro_rules! target {
    ($name:literal, $module:ident $(, $only:expr)?) => {
        FuzzTarget { name: $name, run: |data| $module::target(data $(, $only)?), seeds: || $module::seeds($($only)?) }
    };
}

/// Every target.
pub const TARGETS: [FuzzTarget; 27] = [
    target!("superblock", superblock),
    target!("record", record),
    target!("tags", tags),
    target!("slots", slots),
    target!("transaction", transaction),
    target!("segment", segment),
    target!("database", database),
    target!("cache", cache),
    target!("image", image),
    target!("kept_image", kept_image),
    target!("control", control),
    target!("nbd", nbd),
    target!("trace", trace, None),
    target!("trace_lackey", trace, Some(AccessFormat::Lackey)),
    target!("trace_din", trace, Some(AccessFormat::Din)),
    target!("trace_champsim", trace, Some(AccessFormat::Champsim)),
    target!("trace_drmemtrace", trace, Some(AccessFormat::Drmemtrace)),
    target!("trace_ramulator", trace, Some(AccessFormat::Ramulator)),
    target!("trace_compact", trace, Some(AccessFormat::Compact)),
    target!("trace_compact_pc", trace, Some(AccessFormat::CompactPc)),
    target!("block_trace", block_trace, None),
    target!("block_trace_plain", block_trace, Some(BlockFormat::Plain)),
    target!("block_trace_disksim", block_trace, Some(BlockFormat::DiskSim)),
    target!("block_trace_spc", block_trace, Some(BlockFormat::Spc)),
    target!("block_trace_msr", block_trace, Some(BlockFormat::Msr)),
    target!("block_trace_blkparse", block_trace, Some(BlockFormat::Blkparse)),
    target!("block_trace_iolog", block_trace, Some(BlockFormat::Iolog)),
];

/// Runs the target `name`.
///
/// # Panics
/// There is no such target, or the target finds a fault.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("there is no target `{name}`")).run)(data);
}

/// Writes `value` over the bytes at `at`, if there are enough.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
