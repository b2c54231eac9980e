//! What is done with files by records, as IOzone does (zonfs.txt, figures 5 and 6), by who has them: a folder of the
//! kernel's, or a file system in process.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::buffer::Buffer;
use crate::random::Random;
use crate::tlb::Walks;
use crate::{Error, Result};

mod bare;
mod crew;
mod kernel;
mod library;
mod mixture;

use crew::Start;

pub use bare::BareFolder;
pub use kernel::KernelFolder;
pub use library::LibraryFolder;
pub use mixture::{Mixture, Transactions};

/// Bytes that are written at once where nothing is timed.
const FILL_BYTES: u64 = 1 << 20;
/// Bytes of records between two looks at the clock.
const BATCH_BYTES: u64 = 64 << 10;
/// What files that are written anew are called, with a number.
const FRESH: &str = "fresh";
/// Records before those that are timed: what comes with the first use of a file falls into nobody's time.
const WARM_RECORDS: usize = 32;

/// A folder to make files in.
pub trait Folder: Sync {
    /// An open file of it.
    type File: RecordFile;

    /// Makes an empty file, in place of one that is there.
    fn create(&self, name: &str) -> Result<Self::File>;
    /// Opens a file that is there.
    fn open(&self, name: &str) -> Result<Self::File>;
    /// Makes an empty file that was not there, and has it open no longer.
    fn make(&self, name: &str) -> Result<()> {
        self.create(name).map(drop)
    }
    /// Asks what is known of a file: its size.
    fn stat(&self, name: &str) -> Result<u64>;
    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;
}

/// A file that is read and written by records.
pub trait RecordFile: Sync + Send {
    /// Reads a record at `at`.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
    /// Writes a record at `at`, as durably as its folder has it.
    fn write(&self, at: u64, from: &[u8]) -> Result<()>;
}

/// What is done with records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// A new file is written from its beginning.
    Write,
    /// What is there is written again in order.
    Rewrite,
    /// What is there is written again at random places.
    RandomWrite,
    /// What was written some time ago is read in order.
    Read,
    /// What was read just before is read again in order.
    Reread,
    /// What is there is read at random places.
    RandomRead,
}

impl Verb {
    /// Every verb with its name, in the paper's order.
    pub const ALL: [(&'static str, Self); 6] = [
        ("write", Self::Write),
        ("re-write", Self::Rewrite),
        ("random write", Self::RandomWrite),
        ("read", Self::Read),
        ("re-read", Self::Reread),
        ("random read", Self::RandomRead),
    ];

    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Rewrite | Self::RandomWrite)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::RandomWrite | Self::RandomRead)
    }
}

/// What is done with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Naming {
    /// Empty files are made and closed.
    Create,
    /// Files that were just made are asked about by name.
    Stat,
    /// The same again.
    StatAgain,
    /// Files are removed.
    Unlink,
}

impl Naming {
    /// Everything with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("create and close", Self::Create),
        ("stat", Self::Stat),
        ("stat again", Self::StatAgain),
        ("unlink", Self::Unlink),
    ];
}

/// A slice of work on records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What is done.
    pub verb: Verb,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// Threads, each with a file of its own.
    pub threads: u64,
    /// Bytes of each thread's file.
    pub file_bytes: u64,
    /// Bytes that each thread works on at most.
    pub window_bytes: u64,
    /// Microseconds after which a thread does no more.
    pub limit_us: u64,
    /// Which slice it is.
    pub seed: u64,
    /// What is answered.
    pub told: Told,
}

/// What is answered of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// Bytes, or transactions, a second.
    Rate,
    /// TLB misses of a record, or of a transaction; of one thread.
    Misses,
}

/// What who has a folder is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Make so many files of so many bytes each for jobs, in place of those of before.
    Prepare {
        /// How many.
        files: u64,
        /// Bytes of each.
        file_bytes: u64,
    },
    /// Remove them.
    Clear {
        /// How many there are.
        files: u64,
    },
    /// Work on records.
    Work(Job),
    /// Make the files of a mixture.
    Mix(Mixture),
    /// Work on them.
    Transact(Transactions),
    /// Make, ask about and remove files; the answer is the seconds that each of what is named took.
    Name(Naming, u64),
}

/// Does what `order` says in `folder`.
pub fn obey<F: Folder>(folder: &F, order: &Order) -> Result<f64> {
    match *order {
        Order::Prepare { files, file_bytes } => (0..files).try_for_each(|number| {
            let file = folder.create(&data(number))?;
            fill(&file, 0..file_bytes)
        }),
        Order::Clear { files } => (0..files).try_for_each(|number| folder.remove(&data(number))),
        Order::Work(job) => return job.run(folder),
        Order::Mix(mixture) => mixture.make(folder),
        Order::Transact(transactions) => return transactions.run(folder),
        Order::Name(what, count) => return name(folder, what, count),
    }
    .map(|()| 0.0)
}

fn data(number: u64) -> String {
    format!("data-{number}")
}

fn fill(file: &impl RecordFile, bytes: std::ops::Range<u64>) -> Result<()> {
    let buffer = Buffer::new(FILL_BYTES as usize);
    let mut at = bytes.start;
    while at < bytes.end {
        let len = (bytes.end - at).min(FILL_BYTES);
        file.write(at, &buffer.bytes()[..len as usize])?;
        at += len;
    }
    Ok(())
}

fn name<F: Folder>(folder: &F, what: Naming, count: u64) -> Result<f64> {
    let names: Vec<String> = (0..count).map(|number| format!("name-{number:06}")).collect();
    let each = |done: &dyn Fn(&str) -> Result<()>| {
        let start = Instant::now();
        names.iter().try_for_each(|name| done(name))?;
        Ok::<f64, Error>(start.elapsed().as_secs_f64() / count as f64)
    };
    let create = each(&|name| folder.make(name))?;
    let stat = each(&|name| folder.stat(name).map(drop))?;
    let stat_again = each(&|name| folder.stat(name).map(drop))?;
    let unlink = each(&|name| folder.remove(name))?;
    Ok(match what {
        Naming::Create => create,
        Naming::Stat => stat,
        Naming::StatAgain => stat_again,
        Naming::Unlink => unlink,
    })
}

/// What one thread did.
struct Part {
    records: u64,
    misses: u64,
    start: Instant,
    end: Instant,
}

impl Job {
    fn run<F: Folder>(&self, folder: &F) -> Result<f64> {
        let bounds = (&Start::default(), &Barrier::new(self.threads as usize));
        let parts = crew::together(self.threads, |thread| self.work(folder, thread, bounds))?;
        let records: u64 = parts.iter().map(|part| part.records).sum();
        if self.told == Told::Misses {
            return Ok(parts.iter().map(|part| part.misses).sum::<u64>() as f64 / records as f64);
        }
        let start = parts.iter().map(|part| part.start).min().expect("a thread at least");
        let end = parts.iter().map(|part| part.end).max().expect("a thread at least");
        Ok((records * self.record_bytes) as f64 / (end - start).as_secs_f64())
    }

    /// One thread's share, timed from when all are ready, and cleared away when all have ended, so that neither falls
    /// into the time of others. A failure is told when nobody waits for it any more.
    fn work<F: Folder>(&self, folder: &F, thread: u64, (ready, ended): (&Start, &Barrier)) -> Result<Part> {
        let fresh = format!("{FRESH}-{thread}");
        let mut buffer = Buffer::new(self.record_bytes as usize);
        let places = self.places(thread);
        let (warm, places) = places.split_at((places.len() / 4).min(WARM_RECORDS));
        let opened = self.make_ready(folder, &fresh, thread, (places, &mut buffer)).and_then(|file| {
            self.do_all(&file, warm, &mut buffer)?;
            Ok(file)
        });
        ready.wait_for(self.threads);
        let worked = opened.and_then(|file| Ok((self.measure(&file, places, &mut buffer)?, file)));
        ended.wait();
        let (part, file) = worked?;
        drop(file);
        if self.verb == Verb::Write {
            folder.remove(&fresh)?;
        }
        Ok(part)
    }

    fn measure(&self, file: &impl RecordFile, places: &[u64], buffer: &mut Buffer) -> Result<Part> {
        match self.told {
            Told::Rate => self.time(file, places, buffer),
            Told::Misses => {
                let mut walks = Walks::count(self.verb.writes())?;
                let (misses, part) = walks.during(|| self.time(file, places, buffer))?;
                Ok(Part { misses, ..part? })
            }
        }
    }

    /// The thread's file, with everything as the verb wants to find it.
    fn make_ready<F: Folder>(
        &self,
        folder: &F,
        fresh: &str,
        thread: u64,
        (places, buffer): (&[u64], &mut Buffer),
    ) -> Result<F::File> {
        if self.verb == Verb::Write {
            return folder.create(fresh);
        }
        let file = folder.open(&data(thread))?;
        match self.verb {
            // What is read next time was not read since.
            Verb::Read => {
                let start = self.window(self.seed + self.windows() / 2);
                fill(&file, start..start + self.window_len())?;
            }
            Verb::Reread => places.iter().try_for_each(|at| file.read(*at, buffer.bytes_mut()))?,
            _ => {}
        }
        Ok(file)
    }

    fn window_len(&self) -> u64 {
        (self.window_bytes.min(self.file_bytes) / self.record_bytes).max(1) * self.record_bytes
    }

    fn windows(&self) -> u64 {
        (self.file_bytes / self.window_len()).max(1)
    }

    fn window(&self, number: u64) -> u64 {
        number % self.windows() * self.window_len()
    }

    fn places(&self, thread: u64) -> Vec<u64> {
        let count = self.window_len() / self.record_bytes;
        let first = if self.verb == Verb::Write { 0 } else { self.window(self.seed) };
        let (mut random, records) = (Random::new((self.seed << 8) | thread), self.file_bytes / self.record_bytes);
        let place = |record| {
            if self.verb.is_random() {
                random.below(records) * self.record_bytes
            } else {
                first + record * self.record_bytes
            }
        };
        (0..count).map(place).collect()
    }

    #[inline]
    fn do_all(&self, file: &impl RecordFile, places: &[u64], buffer: &mut Buffer) -> Result<()> {
        if self.verb.writes() {
            places.iter().try_for_each(|at| file.write(*at, buffer.bytes()))
        } else {
            places.iter().try_for_each(|at| file.read(*at, buffer.bytes_mut()))
        }
    }

    fn time(&self, file: &impl RecordFile, places: &[u64], buffer: &mut Buffer) -> Result<Part> {
        let limit = Duration::from_micros(self.limit_us);
        let batch = (BATCH_BYTES / self.record_bytes).max(1) as usize;
        let (start, mut records) = (Instant::now(), 0);
        let mut end = start;
        for places in places.chunks(batch) {
            self.do_all(file, places, buffer)?;
            records += places.len() as u64;
            end = Instant::now();
            if end - start >= limit {
                break;
            }
        }
        Ok(Part { records, misses: 0, start, end })
    }
}

fn told(path: &std::path::Path, doing: &str) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path: PathBuf = path.into();
    Error::io(format!("{doing} {}", path.display()))
}
