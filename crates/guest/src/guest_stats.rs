//! The counts of a guest.

use serde::{Deserialize, Serialize};

/// The counts of an open guest, since it was opened except where the name says a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestCounts {
    /// Frames whose bytes are newer than the disk's.
    pub truth_frames: u64,
    /// Frames whose bytes the disk has too.
    pub copy_frames: u64,
    /// Frames without a page.
    pub free_frames: u64,
    /// Pages that moved from the disk to a frame.
    pub promoted_pages: u64,
    /// Pages that were stored to while they were copies.
    pub returned_pages: u64,
    /// Pages whose truth became a copy.
    pub demoted_pages: u64,
    /// Copies whose frames were used for other pages.
    pub reclaimed_pages: u64,
    /// Bytes read from the disk.
    pub disk_read_bytes: u64,
    /// Bytes written to the disk.
    pub disk_written_bytes: u64,
    /// Flushes of the disk.
    pub disk_flushes: u64,
    /// Writes that waited until a frame became free.
    pub waits: u64,
}
