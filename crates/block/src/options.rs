//! Options of a served disk.

#[cfg(doc)]
use ferrite_memory::Error;
use ferrite_memory::Scheme;

/// Options of a served disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskOptions {
    /// The scheme by which data reaches the medium.
    pub scheme: Scheme,
    /// Overwrite in place: one fence instead of two, and a crash may tear a sector.
    pub in_place: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Read back each write and compare. A store that did not arrive fails the request with [`Error::Damaged`], and the
    /// old content stays (in place, it may be lost).
    pub verify: bool,
    /// Count the cycles of each stage, read from this counter.
    pub stages: Option<fn() -> u64>,
}

/// Which writes take the short path: one pin, and no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortcut {
    /// Writes in place, without checksums, to a span that lies in one run.
    Run,
    /// Writes of one whole block.
    Block,
    /// No write.
    Never,
}

impl Shortcut {
    /// Returns the shortcut of a disk whose data is durable after a fence if `fence_is_durable`.
    pub fn of(options: &DiskOptions, fence_is_durable: bool, has_checksums: bool) -> Self {
        match options {
            _ if options.verify || options.stages.is_some() => Self::Never,
            _ if options.in_place && !has_checksums => Self::Run,
            _ if fence_is_durable => Self::Block,
            _ => Self::Never,
        }
    }
}
