//! Work on files by records, like IOzone's (zonfs.txt, figures 5 and 6), in a folder of the kernel or in a file system of
//! this process.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bench_random::BenchRandom;
use crate::copy_buffer::CopyBuffer;
use crate::tlb::Walks;
use crate::{Error, Result};

mod bare_folder;
mod kernel_folder;
mod library_folder;
mod mixture;
mod page_load;
mod pinned_threads;
mod server_load;

use pinned_threads::StartLine;

pub use bare_folder::BareFolder;
pub use kernel_folder::KernelFolder;
pub use library_folder::LibraryFolder;
pub use mixture::{Mixture, Transactions};
pub use page_load::{PAGE_BYTES, PageLoad, PageMeasure};
pub use server_load::{APPEND_BYTES, ServerLoad, ServerVerb};

/// Bytes of a write that is not timed.
const FILL_BYTES: u64 = 1 << 20;
/// Bytes of records between two looks at the clock.
const BATCH_BYTES: u64 = 64 << 10;
/// The beginning of the names of new files, before a number.
const FRESH: &str = "fresh";
/// Records before those that are timed, so that the first use of a file is not timed.
const WARM_RECORDS: usize = 32;

/// A folder of files.
pub trait RecordFolder: Sync {
    /// An open file of the folder.
    type OpenFile: RecordFile;

    /// Makes an empty file, in place of an existing one.
    fn create(&self, name: &str) -> Result<Self::OpenFile>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> Result<Self::OpenFile>;
    /// Makes an empty file that does not exist, and closes it.
    fn make(&self, name: &str) -> Result<()> {
        self.create(name).map(drop)
    }
    /// Returns the size of a file, looked up by name.
    fn stat(&self, name: &str) -> Result<u64>;
    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;
}

/// A file that is read and written by records.
pub trait RecordFile: Sync + Send {
    /// Reads a record at `at`.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
    /// Writes a record at `at`; the folder decides how durable it is on return.
    fn write(&self, at: u64, from: &[u8]) -> Result<()>;
    /// Makes all writes of the file durable, if their return does not.
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// Work on records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordVerb {
    /// A new file is written from its beginning.
    Write,
    /// An existing file is overwritten in order.
    Rewrite,
    /// An existing file is overwritten at random places.
    RandomWrite,
    /// Records that were written some time ago are read in order.
    Read,
    /// Records that were read just before are read again in order.
    Reread,
    /// An existing file is read at random places.
    RandomRead,
}

impl RecordVerb {
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

/// Work on names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameVerb {
    /// Empty files are created and closed.
    Create,
    /// New files are looked up by name.
    Stat,
    /// The files are looked up again.
    StatAgain,
    /// Files are removed.
    Unlink,
}

impl NameVerb {
    /// Every verb with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("create and close", Self::Create),
        ("stat", Self::Stat),
        ("stat again", Self::StatAgain),
        ("unlink", Self::Unlink),
    ];
}

/// A slice of work on records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordJob {
    /// The work.
    pub verb: RecordVerb,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// Threads, each with a file of its own.
    pub threads: u64,
    /// Bytes of each thread's file.
    pub file_bytes: u64,
    /// Bytes of the file that each thread works on at most.
    pub window_bytes: u64,
    /// Microseconds after which a thread stops.
    pub limit_us: u64,
    /// The number of the slice.
    pub seed: u64,
    /// The measure that is returned.
    pub answer: JobMeasure,
}

/// The measure of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobMeasure {
    /// Bytes, or transactions, a second.
    Rate,
    /// TLB misses of a record, or of a transaction, by one thread.
    Misses,
}

/// An order to the owner of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum FileOrder {
    /// Make files for jobs, in place of existing ones.
    Prepare {
        /// The number of files.
        files: u64,
        /// Bytes of each.
        file_bytes: u64,
    },
    /// Remove the files for jobs.
    Clear {
        /// The number of files.
        files: u64,
    },
    /// Work on records.
    Work(RecordJob),
    /// Make the files of a mixture.
    Mix(Mixture),
    /// Work on the files of a mixture.
    Transact(Transactions),
    /// Create, look up and remove so many files; the measure is the seconds that the verb took for each.
    Name(NameVerb, u64),
    /// Random requests of one page each; the measure is their rate.
    Pages(PageLoad),
    /// Operations of a file server; the measure is their rate.
    Serve(ServerLoad),
}

/// Carries out `order` in `folder`, and returns what it measured.
pub fn carry_out<F: RecordFolder>(folder: &F, order: &FileOrder) -> Result<f64> {
    match *order {
        FileOrder::Prepare { files, file_bytes } => (0..files).try_for_each(|number| {
            let file = folder.create(&data(number))?;
            fill(&file, 0..file_bytes)
        }),
        FileOrder::Clear { files } => (0..files).try_for_each(|number| folder.remove(&data(number))),
        FileOrder::Work(job) => return job.run(folder),
        FileOrder::Mix(mixture) => mixture.make(folder),
        FileOrder::Transact(transactions) => return transactions.run(folder),
        FileOrder::Name(what, count) => return name(folder, what, count),
        FileOrder::Pages(load) => return load.run(folder),
        FileOrder::Serve(load) => return load.run(folder),
    }
    .map(|()| 0.0)
}

fn data(number: u64) -> String {
    format!("data-{number}")
}

fn fill(file: &impl RecordFile, bytes: std::ops::Range<u64>) -> Result<()> {
    let buffer = CopyBuffer::new(FILL_BYTES as usize);
    let mut at = bytes.start;
    while at < bytes.end {
        let len = (bytes.end - at).min(FILL_BYTES);
        file.write(at, &buffer.bytes()[..len as usize])?;
        at += len;
    }
    Ok(())
}

fn name<F: RecordFolder>(folder: &F, what: NameVerb, count: u64) -> Result<f64> {
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
        NameVerb::Create => create,
        NameVerb::Stat => stat,
        NameVerb::StatAgain => stat_again,
        NameVerb::Unlink => unlink,
    })
}

/// The records of one thread.
struct JobPart {
    records: u64,
    misses: u64,
    start: Instant,
    end: Instant,
}

/// Where the threads of a job wait for each other.
struct JobBounds {
    start: StartLine,
    end: Barrier,
}

impl RecordJob {
    fn run<F: RecordFolder>(&self, folder: &F) -> Result<f64> {
        let bounds = JobBounds { start: StartLine::default(), end: Barrier::new(self.threads as usize) };
        let parts = pinned_threads::together(self.threads, |thread| self.work(folder, thread, &bounds))?;
        let records: u64 = parts.iter().map(|part| part.records).sum();
        if self.answer == JobMeasure::Misses {
            return Ok(parts.iter().map(|part| part.misses).sum::<u64>() as f64 / records as f64);
        }
        let start = parts.iter().map(|part| part.start).min().expect("a thread at least");
        let end = parts.iter().map(|part| part.end).max().expect("a thread at least");
        Ok((records * self.record_bytes) as f64 / (end - start).as_secs_f64())
    }

    /// The share of one thread. All threads start together, and remove their new files after all have ended, so that neither
    /// counts in another's time. A thread that fails waits for the others first.
    fn work<F: RecordFolder>(&self, folder: &F, thread: u64, bounds: &JobBounds) -> Result<JobPart> {
        let fresh = format!("{FRESH}-{thread}");
        let mut buffer = CopyBuffer::new(self.record_bytes as usize);
        let places = self.places(thread);
        let (warm, places) = places.split_at((places.len() / 4).min(WARM_RECORDS));
        let opened = self.make_ready(folder, &fresh, thread, places, &mut buffer).and_then(|file| {
            self.do_all(&file, warm, &mut buffer)?;
            Ok(file)
        });
        bounds.start.wait_for(self.threads);
        let worked = opened.and_then(|file| Ok((self.measure(&file, places, &mut buffer)?, file)));
        bounds.end.wait();
        let (part, file) = worked?;
        drop(file);
        if self.verb == RecordVerb::Write {
            folder.remove(&fresh)?;
        }
        Ok(part)
    }

    fn measure(&self, file: &impl RecordFile, places: &[u64], buffer: &mut CopyBuffer) -> Result<JobPart> {
        match self.answer {
            JobMeasure::Rate => self.time(file, places, buffer),
            JobMeasure::Misses => {
                let mut walks = Walks::count(self.verb.writes())?;
                let (misses, part) = walks.during(|| self.time(file, places, buffer))?;
                Ok(JobPart { misses, ..part? })
            }
        }
    }

    /// Opens the thread's file and prepares it for the verb.
    fn make_ready<F: RecordFolder>(
        &self,
        folder: &F,
        fresh: &str,
        thread: u64,
        places: &[u64],
        buffer: &mut CopyBuffer,
    ) -> Result<F::OpenFile> {
        if self.verb == RecordVerb::Write {
            return folder.create(fresh);
        }
        let file = folder.open(&data(thread))?;
        match self.verb {
            // The window of a later slice is written again, so that it is not read twice.
            RecordVerb::Read => {
                let start = self.window(self.seed + self.windows() / 2);
                fill(&file, start..start + self.window_len())?;
            }
            RecordVerb::Reread => places.iter().try_for_each(|at| file.read(*at, buffer.bytes_mut()))?,
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
        let first = if self.verb == RecordVerb::Write { 0 } else { self.window(self.seed) };
        let (mut random, records) = (BenchRandom::new((self.seed << 8) | thread), self.file_bytes / self.record_bytes);
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
    fn do_all(&self, file: &impl RecordFile, places: &[u64], buffer: &mut CopyBuffer) -> Result<()> {
        if self.verb.writes() {
            places.iter().try_for_each(|at| file.write(*at, buffer.bytes()))
        } else {
            places.iter().try_for_each(|at| file.read(*at, buffer.bytes_mut()))
        }
    }

    fn time(&self, file: &impl RecordFile, places: &[u64], buffer: &mut CopyBuffer) -> Result<JobPart> {
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
        Ok(JobPart { records, misses: 0, start, end })
    }
}

fn io_error(path: &std::path::Path, doing: &str) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path: PathBuf = path.into();
    Error::io(format!("{doing} {}", path.display()))
}

#[cfg(test)]
mod tests;
