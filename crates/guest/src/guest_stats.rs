//! The counts of a guest.

use ferrite_pool::holding::LEASE_FIGURES;
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
    /// Of these, pages that had lost their frames a short while before: more memory would have kept them.
    pub missed_pages: u64,
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

impl GuestCounts {
    /// Returns the counts as the process that has a lent guest publishes them.
    pub(crate) fn figures(&self) -> [u64; LEASE_FIGURES] {
        let mut figures = [0; LEASE_FIGURES];
        let counts = [
            self.truth_frames,
            self.copy_frames,
            self.free_frames,
            self.promoted_pages,
            self.missed_pages,
            self.returned_pages,
            self.demoted_pages,
            self.reclaimed_pages,
            self.disk_read_bytes,
            self.disk_written_bytes,
            self.disk_flushes,
            self.waits,
        ];
        figures[..counts.len()].copy_from_slice(&counts);
        figures
    }

    /// Returns the counts that [`GuestCounts::figures`] made `figures` of.
    pub(crate) fn of_figures(figures: [u64; LEASE_FIGURES]) -> Self {
        let [truth_frames, copy_frames, free_frames, promoted_pages, missed_pages, returned_pages, rest @ ..] = figures;
        let [demoted_pages, reclaimed_pages, disk_read_bytes, disk_written_bytes, disk_flushes, waits, ..] = rest;
        Self {
            truth_frames,
            copy_frames,
            free_frames,
            promoted_pages,
            missed_pages,
            returned_pages,
            demoted_pages,
            reclaimed_pages,
            disk_read_bytes,
            disk_written_bytes,
            disk_flushes,
            waits,
        }
    }
}
