//! Small and large files that are read whole, appended to, removed and made again, like the files of postmark (Katcher 1997).

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{JobMeasure, RecordFile, RecordFolder, fill};
use crate::Result;
use crate::bench_random::BenchRandom;
use crate::copy_buffer::CopyBuffer;
use crate::tlb::Walks;

/// Bytes of a read or an append.
const BLOCK: u64 = 4096;
/// The range of the size of small files, in bytes.
const SMALL: [u64; 2] = [512, 32 << 10];
/// The size in bytes from which an appended file is removed and made again.
const GROWN: u64 = 4 * SMALL[1];
/// Transactions between two looks at the clock.
const BATCH: u64 = 8;

/// The numbers and sizes of the files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// The number of small files.
    pub small: u64,
    /// The number of large files.
    pub large: u64,
    /// Bytes of a large file.
    pub large_bytes: u64,
}

/// Work on the files of a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transactions {
    /// The files.
    pub mixture: Mixture,
    /// The number of transactions in a hundred that read; the others append, or remove and make a file.
    pub reads: u64,
    /// Microseconds after which no transaction begins.
    pub limit_us: u64,
    /// The number of the slice.
    pub seed: u64,
    /// The measure that is returned.
    pub answer: JobMeasure,
}

fn small(number: u64) -> String {
    format!("small-{number}")
}

fn large(number: u64) -> String {
    format!("large-{number}")
}

fn small_bytes(random: &mut BenchRandom) -> u64 {
    SMALL[0] + random.below(SMALL[1] - SMALL[0])
}

impl Mixture {
    /// Makes the files.
    pub fn make<F: RecordFolder>(&self, folder: &F) -> Result<()> {
        let mut random = BenchRandom::new(7);
        (0..self.small).try_for_each(|number| fill(&folder.create(&small(number))?, 0..small_bytes(&mut random)))?;
        (0..self.large).try_for_each(|number| fill(&folder.create(&large(number))?, 0..self.large_bytes))
    }
}

/// Transactions, and the time that they took.
struct TransactionCount {
    count: u64,
    seconds: f64,
}

impl Transactions {
    /// Runs transactions, and returns their measure.
    pub fn run<F: RecordFolder>(&self, folder: &F) -> Result<f64> {
        match self.answer {
            JobMeasure::Rate => self.time(folder).map(|done| done.count as f64 / done.seconds),
            JobMeasure::Misses => {
                let (misses, done) = Walks::count(self.reads < 50)?.during(|| self.time(folder))?;
                Ok(misses as f64 / done?.count as f64)
            }
        }
    }

    fn time<F: RecordFolder>(&self, folder: &F) -> Result<TransactionCount> {
        let limit = Duration::from_micros(self.limit_us);
        let mut random = BenchRandom::new(self.seed);
        let mut block = CopyBuffer::new(SMALL[1] as usize);
        let (start, mut count) = (Instant::now(), 0);
        loop {
            (0..BATCH).try_for_each(|_| self.transact(folder, &mut random, &mut block))?;
            count += BATCH;
            let passed = start.elapsed();
            if passed >= limit {
                return Ok(TransactionCount { count, seconds: passed.as_secs_f64() });
            }
        }
    }

    /// Runs one transaction; one of sixteen is on a large file.
    fn transact<F: RecordFolder>(&self, folder: &F, random: &mut BenchRandom, block: &mut CopyBuffer) -> Result<()> {
        let Mixture { small: smalls, large: larges, .. } = self.mixture;
        let (on_large, reads) = (random.below(16) == 0, random.below(100) < self.reads);
        let name = if on_large { large(random.below(larges)) } else { small(random.below(smalls)) };
        match (on_large, reads) {
            (false, true) => read(folder, &name, block),
            (false, false) => change(folder, &name, random, block),
            (true, _) => self.visit(folder, &name, reads, random, block),
        }
    }

    /// Reads or writes sixty-four blocks of a large file, at random places.
    fn visit<F: RecordFolder>(
        &self,
        folder: &F,
        name: &str,
        reads: bool,
        random: &mut BenchRandom,
        block: &mut CopyBuffer,
    ) -> Result<()> {
        let file = folder.open(name)?;
        (0..64).try_for_each(|_| {
            let at = random.below(self.mixture.large_bytes / BLOCK) * BLOCK;
            if reads {
                file.read(at, &mut block.bytes_mut()[..BLOCK as usize])
            } else {
                file.write(at, &block.bytes()[..BLOCK as usize])
            }
        })
    }
}

fn read<F: RecordFolder>(folder: &F, name: &str, block: &mut CopyBuffer) -> Result<()> {
    let (bytes, file) = (folder.stat(name)?, folder.open(name)?);
    (0..bytes).step_by(BLOCK as usize).try_for_each(|at| {
        let len = (bytes - at).min(BLOCK) as usize;
        file.read(at, &mut block.bytes_mut()[..len])
    })
}

/// Appends to a file, or removes it and makes another of its name.
fn change<F: RecordFolder>(folder: &F, name: &str, random: &mut BenchRandom, block: &CopyBuffer) -> Result<()> {
    let bytes = folder.stat(name)?;
    if bytes < GROWN && random.below(2) == 0 {
        return folder.open(name)?.write(bytes, &block.bytes()[..BLOCK as usize]);
    }
    folder.remove(name)?;
    folder.create(name)?.write(0, &block.bytes()[..small_bytes(random) as usize])
}
