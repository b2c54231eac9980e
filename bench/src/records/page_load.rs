//! Random requests of one page each, on one large file or on files that are opened for each request.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{RecordFile, RecordFolder, data};
use crate::Result;
use crate::bench_random::BenchRandom;
use crate::copy_buffer::CopyBuffer;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Random requests to the files that [`super::FileOrder::Prepare`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// The number of files.
    pub files: u64,
    /// Bytes of each file, from its beginning, that requests go to.
    pub window_bytes: u64,
    /// The number of requests.
    pub requests: u64,
    /// The number of requests in a thousand that read.
    pub reads_permille: u64,
    /// Writes of a file after which it is synced; 0 for never.
    pub sync_every: u64,
    /// The seed of the places.
    pub seed: u64,
    /// The measure that is returned.
    pub answer: PageMeasure,
}

/// The measure of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageMeasure {
    /// Requests a second.
    Rate,
    /// Microseconds within which all but a hundredth of the requests end.
    P99,
}

/// A request of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The number of the file.
    pub file: u64,
    /// The page of the file.
    pub page: u64,
    /// Whether the request reads.
    pub is_read: bool,
}

impl PageLoad {
    /// Returns the requests in their order.
    pub fn requests(&self) -> impl Iterator<Item = PageRequest> + use<> {
        let (load, mut random) = (*self, BenchRandom::new(self.seed));
        (0..load.requests).map(move |_| PageRequest {
            file: random.below(load.files),
            page: random.below(load.window_bytes / PAGE_BYTES),
            is_read: random.below(1000) < load.reads_permille,
        })
    }

    /// Runs the requests. Returns the measure.
    pub fn run<F: RecordFolder>(&self, folder: &F) -> Result<f64> {
        let mut buffer = CopyBuffer::new(PAGE_BYTES as usize);
        let (start, mut open, mut times) = (Instant::now(), None, Vec::new());
        for (number, request) in (1..).zip(self.requests()) {
            let file = match open.take() {
                Some((name, file)) if name == request.file => file,
                _ => folder.open(&data(request.file))?,
            };
            let (at, began) = (request.page * PAGE_BYTES, Instant::now());
            if request.is_read {
                file.read(at, buffer.bytes_mut())?;
            } else {
                buffer.bytes_mut()[..8].copy_from_slice(&u64::to_le_bytes(number));
                file.write(at, buffer.bytes())?;
            }
            if self.sync_every > 0 && number % self.sync_every == 0 {
                file.sync()?;
            }
            if self.answer == PageMeasure::P99 {
                times.push(began.elapsed());
            }
            open = Some((request.file, file));
        }
        if self.answer == PageMeasure::P99 {
            times.sort_unstable();
            return Ok(times.get(times.len() * 99 / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6));
        }
        Ok(self.requests as f64 / start.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
