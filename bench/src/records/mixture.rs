//! Small and large files together, read whole, appended to, removed and made again, as postmark has them (Katcher 1997).

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Folder, RecordFile, Told, fill};
use crate::Result;
use crate::buffer::Buffer;
use crate::random::Random;
use crate::tlb::Walks;

/// Bytes that are read, or appended, at once.
const BLOCK: u64 = 4096;
/// Bytes of small files, from and to.
const SMALL: [u64; 2] = [512, 32 << 10];
/// An appended file is made anew when it is so much larger than a small one is.
const GROWN: u64 = 4 * SMALL[1];
/// Transactions between two looks at the clock.
const BATCH: u64 = 8;

/// The files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// How many are small.
    pub small: u64,
    /// How many are large.
    pub large: u64,
    /// Bytes of a large one.
    pub large_bytes: u64,
}

/// Work on them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transactions {
    /// What there is.
    pub mixture: Mixture,
    /// Of a hundred transactions so many read; the others append, or remove and make a file.
    pub reads: u64,
    /// Microseconds after which no more are begun.
    pub limit_us: u64,
    /// Which slice it is.
    pub seed: u64,
    /// What is answered.
    pub told: Told,
}

fn small(number: u64) -> String {
    format!("small-{number}")
}

fn large(number: u64) -> String {
    format!("large-{number}")
}

fn small_bytes(random: &mut Random) -> u64 {
    SMALL[0] + random.below(SMALL[1] - SMALL[0])
}

impl Mixture {
    /// Makes them.
    pub fn make<F: Folder>(&self, folder: &F) -> Result<()> {
        let mut random = Random::new(7);
        (0..self.small).try_for_each(|number| fill(&folder.create(&small(number))?, 0..small_bytes(&mut random)))?;
        (0..self.large).try_for_each(|number| fill(&folder.create(&large(number))?, 0..self.large_bytes))
    }
}

/// What was done.
struct Done {
    count: u64,
    seconds: f64,
}

impl Transactions {
    /// Does them.
    pub fn run<F: Folder>(&self, folder: &F) -> Result<f64> {
        match self.told {
            Told::Rate => self.time(folder).map(|done| done.count as f64 / done.seconds),
            Told::Misses => {
                let (misses, done) = Walks::count(self.reads < 50)?.during(|| self.time(folder))?;
                Ok(misses as f64 / done?.count as f64)
            }
        }
    }

    fn time<F: Folder>(&self, folder: &F) -> Result<Done> {
        let limit = Duration::from_micros(self.limit_us);
        let mut random = Random::new(self.seed);
        let mut block = Buffer::new(SMALL[1] as usize);
        let (start, mut count) = (Instant::now(), 0);
        loop {
            (0..BATCH).try_for_each(|_| self.transact(folder, &mut random, &mut block))?;
            count += BATCH;
            let passed = start.elapsed();
            if passed >= limit {
                return Ok(Done { count, seconds: passed.as_secs_f64() });
            }
        }
    }

    /// One of sixteen is on a large file.
    fn transact<F: Folder>(&self, folder: &F, random: &mut Random, block: &mut Buffer) -> Result<()> {
        let Mixture { small: smalls, large: larges, .. } = self.mixture;
        let (on_large, reads) = (random.below(16) == 0, random.below(100) < self.reads);
        let name = if on_large { large(random.below(larges)) } else { small(random.below(smalls)) };
        match (on_large, reads) {
            (false, true) => read(folder, &name, block),
            (false, false) => change(folder, &name, random, block),
            (true, _) => self.visit(folder, &name, (reads, random, block)),
        }
    }

    /// Reads or writes sixty-four blocks of a large file, at random places.
    fn visit<F: Folder>(
        &self,
        folder: &F,
        name: &str,
        (reads, random, block): (bool, &mut Random, &mut Buffer),
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

fn read<F: Folder>(folder: &F, name: &str, block: &mut Buffer) -> Result<()> {
    let (bytes, file) = (folder.stat(name)?, folder.open(name)?);
    (0..bytes).step_by(BLOCK as usize).try_for_each(|at| {
        let len = (bytes - at).min(BLOCK) as usize;
        file.read(at, &mut block.bytes_mut()[..len])
    })
}

/// Appends to it, or removes it and makes another of its name.
fn change<F: Folder>(folder: &F, name: &str, random: &mut Random, block: &Buffer) -> Result<()> {
    let bytes = folder.stat(name)?;
    if bytes < GROWN && random.below(2) == 0 {
        return folder.open(name)?.write(bytes, &block.bytes()[..BLOCK as usize]);
    }
    folder.remove(name)?;
    folder.create(name)?.write(0, &block.bytes()[..small_bytes(random) as usize])
}
