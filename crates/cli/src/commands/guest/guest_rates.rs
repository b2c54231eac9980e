//! The pages and bytes that a guest moves per second, between two reports about it.

use ferrite_guest::{GuestCounts, GuestReport};
use serde::Serialize;

use crate::commands::watch::Counted;
use crate::size;

/// Pages, bytes and events per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GuestRates {
    /// Pages that moved to a frame per second.
    pub promoted_pages: f64,
    /// Of these, pages that had lost their frames a short while before.
    pub missed_pages: f64,
    /// Pages per second whose truth became a copy.
    pub demoted_pages: f64,
    /// Bytes read from the disk per second.
    pub disk_read_bytes: f64,
    /// Bytes written to the disk per second.
    pub disk_written_bytes: f64,
    /// Flushes of the disk per second.
    pub disk_flushes: f64,
    /// Writes per second that waited until a frame became free.
    pub waits: f64,
}

impl Counted for GuestReport {
    type Counts = GuestCounts;
    type Rates = GuestRates;

    fn counts(&self) -> Option<&GuestCounts> {
        self.counts.as_ref()
    }

    fn rates(before: &GuestCounts, after: &GuestCounts, rate: impl Fn(u64, u64) -> Option<f64>) -> Option<GuestRates> {
        Some(GuestRates {
            promoted_pages: rate(before.promoted_pages, after.promoted_pages)?,
            missed_pages: rate(before.missed_pages, after.missed_pages)?,
            demoted_pages: rate(before.demoted_pages, after.demoted_pages)?,
            disk_read_bytes: rate(before.disk_read_bytes, after.disk_read_bytes)?,
            disk_written_bytes: rate(before.disk_written_bytes, after.disk_written_bytes)?,
            disk_flushes: rate(before.disk_flushes, after.disk_flushes)?,
            waits: rate(before.waits, after.waits)?,
        })
    }
}

impl GuestRates {
    /// Returns the rates as a line for people.
    pub fn show(&self) -> String {
        let Self { disk_flushes, waits, .. } = *self;
        let bytes = |bytes: f64| size::show(bytes as u64);
        let pages = |pages: f64| bytes(pages * 4096.0);
        format!(
            "  now {}/s to the pool, {}/s of it lately dropped, {}/s to the disk; {}/s read, {}/s written, \
             {disk_flushes:.0} flushes/s, {waits:.0} waits/s\n",
            pages(self.promoted_pages),
            pages(self.missed_pages),
            pages(self.demoted_pages),
            bytes(self.disk_read_bytes),
            bytes(self.disk_written_bytes),
        )
    }
}

#[cfg(test)]
mod tests;
