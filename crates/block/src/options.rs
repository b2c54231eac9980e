//! How a disk is served.

#[cfg(doc)]
use ferrite_memory::Error;
use ferrite_memory::Scheme;

/// How to serve a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskOptions {
    /// How data reaches the medium.
    pub scheme: Scheme,
    /// Overwrite in place: one fence instead of two, and a crash may tear a sector.
    pub in_place: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Read back what was written and compare: a store that did not arrive fails the request, with
    /// [`Error::Damaged`], and what was there before stays (in place, it may not).
    pub verify: bool,
    /// Count the cycles of each stage, by this counter.
    pub stages: Option<fn() -> u64>,
}

/// Which writes are served by code with nothing in it but what they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortcut {
    /// Those over what lies in one run.
    Overwrite,
    /// Those of one whole block.
    Replace,
    /// Those of one whole block, with its checksum.
    ReplaceChecked,
    /// Those over one whole block, with its checksum.
    OverwriteChecked,
    /// None.
    No,
}

impl Shortcut {
    pub fn of(options: &DiskOptions, settles: bool, has_checksums: bool) -> Self {
        let is_plain = !options.verify && options.stages.is_none();
        match (options.in_place, has_checksums) {
            (true, false) if is_plain => Self::Overwrite,
            (false, false) if is_plain && settles => Self::Replace,
            (false, true) if is_plain && settles => Self::ReplaceChecked,
            (true, true) if is_plain && settles => Self::OverwriteChecked,
            _ => Self::No,
        }
    }
}
