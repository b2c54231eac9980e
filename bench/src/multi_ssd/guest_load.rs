//! The load of a guest: clients with one request each in flight at a block device, past the page cache.
//!
//! A written block is filled with its number, so that a read finds zeros or that number.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::closed_loop::CLIENTS;
use crate::bench_random::BenchRandom;
use crate::cache_stage::REQUEST_BYTES;
use crate::zipf_blocks::ZipfBlocks;
use crate::{Error, Result};

/// The first argument of a worker that runs this load.
pub const ARGUMENT: &str = "--blocks";

/// A block at an address that direct requests take.
#[repr(align(4096))]
struct AlignedBlock([u8; REQUEST_BYTES as usize]);

/// The load.
pub struct GuestLoad {
    /// Blocks of the device that are used.
    pub blocks: u64,
    /// Reads of each thousand requests.
    pub reads_permille: u64,
    /// The skew, in hundredths.
    pub theta_percent: u64,
    /// Windows, each of as many requests as there are blocks.
    pub windows: u64,
}

impl GuestLoad {
    /// Returns the arguments of a worker that runs the load.
    pub fn arguments(&self) -> [u64; 4] {
        [self.blocks, self.reads_permille, self.theta_percent, self.windows]
    }

    /// Runs the load that the arguments of a worker name: a device, and the numbers of [`GuestLoad::arguments`]. Prints
    /// the reads, the writes and the nanoseconds of each window.
    ///
    /// # Errors
    /// [`Error::Io`] if the device fails, [`Error::Server`] if it returns other data.
    pub fn run_arguments(arguments: &[impl AsRef<std::ffi::OsStr>]) -> Result<()> {
        let number = |at: usize| {
            let text = arguments.get(at).map(|text| text.as_ref().to_string_lossy());
            text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::server("the load", format!("argument {at}")))
        };
        let device = arguments.first().map(|device| Path::new(device.as_ref())).unwrap_or(Path::new(""));
        let [blocks, reads_permille, theta_percent, windows] = [number(1)?, number(2)?, number(3)?, number(4)?];
        Self { blocks, reads_permille, theta_percent, windows }.run(device)
    }

    fn run(&self, device: &Path) -> Result<()> {
        let opened = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(device);
        let device = opened.map_err(Error::io(format!("opening {}", device.display())))?;
        let zipf = ZipfBlocks::new(self.blocks as u32, self.theta_percent as f64 / 100.0, 11);
        for window in 0..self.windows {
            let (start, reads) = (Instant::now(), AtomicU64::new(0));
            thread::scope(|scope| {
                let client = |number| {
                    let random = BenchRandom::new(5 + window * CLIENTS as u64 + number);
                    scope.spawn(|| self.client(&device, &zipf, random, &reads))
                };
                let clients: Vec<_> = (0..CLIENTS as u64).map(client).collect();
                clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
            })?;
            let (reads, all) = (reads.into_inner(), self.blocks / CLIENTS as u64 * CLIENTS as u64);
            println!("window {reads} {} {}", all - reads, start.elapsed().as_nanos());
        }
        Ok(())
    }

    fn client(&self, device: &File, zipf: &ZipfBlocks, mut random: BenchRandom, reads: &AtomicU64) -> Result<()> {
        let mut buffer = AlignedBlock([0; REQUEST_BYTES as usize]);
        for _ in 0..self.blocks / CLIENTS as u64 {
            let is_read = random.below(1000) < self.reads_permille;
            let block = zipf.draw(&mut random);
            let (at, own) = (u64::from(block) * REQUEST_BYTES, block.to_le_bytes());
            if is_read {
                reads.fetch_add(1, Ordering::Relaxed);
                device.read_exact_at(&mut buffer.0, at).map_err(Error::io("reading in the guest"))?;
                let is_right = |word: &[u8]| word == own || word == [0; 4];
                if !buffer.0.chunks_exact(4).all(is_right) {
                    return Err(Error::server("the cache", format!("block {block} has wrong data")));
                }
            } else {
                buffer.0.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&own));
                device.write_all_at(&buffer.0, at).map_err(Error::io("writing in the guest"))?;
            }
        }
        Ok(())
    }
}
