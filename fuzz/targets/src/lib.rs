//! What reads bytes that nobody vouches for, each as a plain function of those bytes.
//!
//! A target panics when a decoder breaks its promise: it takes any bytes without panicking, and what it accepts is
//! sound. `cargo fuzz run NAME` looks for such bytes; `cargo test -p ferrite-fuzz` replays what was found, and variants
//! of valid input, on a stable toolchain.

mod block_trace;
mod control;
mod database;
mod image;
mod nbd;
mod record;
mod segment;
mod slots;
mod superblock;
mod tags;
mod trace;
mod transaction;

use ferrite_sim::block_trace::Format;
use ferrite_sim::trace::Form;

/// A decoder under test.
pub struct Target {
    /// What `cargo fuzz run` and the folder in fuzz/corpus call it.
    pub name: &'static str,
    /// Panics on bytes that the decoder should have survived or refused.
    pub run: fn(&[u8]),
    /// Valid input, made by our own encoders, so that it never goes stale.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 24] = [
    Target { name: "superblock", run: superblock::target, seeds: superblock::seeds },
    Target { name: "record", run: record::target, seeds: record::seeds },
    Target { name: "tags", run: tags::target, seeds: tags::seeds },
    Target { name: "slots", run: slots::target, seeds: slots::seeds },
    Target { name: "transaction", run: transaction::target, seeds: transaction::seeds },
    Target { name: "segment", run: segment::target, seeds: segment::seeds },
    Target { name: "database", run: database::target, seeds: database::seeds },
    Target { name: "image", run: image::target, seeds: image::seeds },
    Target { name: "control", run: control::target, seeds: control::seeds },
    Target { name: "nbd", run: nbd::target, seeds: nbd::seeds },
    Target { name: "trace", run: |data| trace::target(data, None), seeds: || trace::seeds(None) },
    Target {
        name: "trace_lackey",
        run: |data| trace::target(data, Some(Form::Lackey)),
        seeds: || trace::seeds(Some(Form::Lackey)),
    },
    Target {
        name: "trace_din",
        run: |data| trace::target(data, Some(Form::Din)),
        seeds: || trace::seeds(Some(Form::Din)),
    },
    Target {
        name: "trace_champsim",
        run: |data| trace::target(data, Some(Form::Champsim)),
        seeds: || trace::seeds(Some(Form::Champsim)),
    },
    Target {
        name: "trace_drmemtrace",
        run: |data| trace::target(data, Some(Form::Drmemtrace)),
        seeds: || trace::seeds(Some(Form::Drmemtrace)),
    },
    Target {
        name: "trace_ramulator",
        run: |data| trace::target(data, Some(Form::Ramulator)),
        seeds: || trace::seeds(Some(Form::Ramulator)),
    },
    Target {
        name: "trace_compact",
        run: |data| trace::target(data, Some(Form::Compact)),
        seeds: || trace::seeds(Some(Form::Compact)),
    },
    Target { name: "block_trace", run: |data| block_trace::target(data, None), seeds: || block_trace::seeds(None) },
    Target {
        name: "block_trace_plain",
        run: |data| block_trace::target(data, Some(Format::Plain)),
        seeds: || block_trace::seeds(Some(Format::Plain)),
    },
    Target {
        name: "block_trace_disksim",
        run: |data| block_trace::target(data, Some(Format::DiskSim)),
        seeds: || block_trace::seeds(Some(Format::DiskSim)),
    },
    Target {
        name: "block_trace_spc",
        run: |data| block_trace::target(data, Some(Format::Spc)),
        seeds: || block_trace::seeds(Some(Format::Spc)),
    },
    Target {
        name: "block_trace_msr",
        run: |data| block_trace::target(data, Some(Format::Msr)),
        seeds: || block_trace::seeds(Some(Format::Msr)),
    },
    Target {
        name: "block_trace_blkparse",
        run: |data| block_trace::target(data, Some(Format::Blkparse)),
        seeds: || block_trace::seeds(Some(Format::Blkparse)),
    },
    Target {
        name: "block_trace_iolog",
        run: |data| block_trace::target(data, Some(Format::Iolog)),
        seeds: || block_trace::seeds(Some(Format::Iolog)),
    },
];

/// Runs the target `name`.
///
/// # Panics
/// When there is no such target, or when it finds something.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("there is no target `{name}`")).run)(data);
}

/// Writes `value` over the bytes at `at`, where there are enough.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
