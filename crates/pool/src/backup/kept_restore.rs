//! Restoring a kept image by several threads.
//!
//! ```text
//! thread 1   claim chunks 0..16   reserve   read, sum, store  read, sum, store ...   claim the next 16
//! thread 2   claim chunks 16..32  reserve   read, sum, store  ...                    fence at its end
//! ```
//!
//! A thread that waits for the disk leaves the processors to the others, and each one makes the huge pages of its own
//! chunks. A page goes from the buffer of the read to the pool while it is in the processor's cache.
//!
//! - KR1. A page is stored only after its sum was verified (KF1), so a damaged image leaves an unfinished restore (BK3).
//! - KR2. Each chunk is claimed by one thread. A thread fences its stores before it ends, and the restore waits for all
//!   threads before it makes the pool durable and clean (BK3).
//! - KR3. After a failure, or if the caller stops the restore, no thread claims chunks any more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use ferrite_memory::{Memory, Scheme, Span};

use super::frames::FrameSource;
use super::image_format::ImageHeader;
use super::kept_reader::{KeptChunk, KeptReader};
use super::restore::{clear, restore_by};
use super::{ImageSummary, RestoreOptions, progress};
use crate::layout::{CHUNK, PAGE};
use crate::{Error, Progress, Result};

/// The most threads: more of them only wait for the disk.
const THREADS_MAX: usize = 8;

/// How a restore is divided between threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestorePlan {
    /// The number of threads. With one the calling thread restores.
    pub threads: usize,
    /// Chunks that a thread claims at once: to make huge pages of many chunks at once is faster.
    pub claimed: u64,
}

impl RestorePlan {
    /// Returns the plan for this machine. Three threads for each processor: one stores while others wait for the disk
    /// and for the kernel, which clears huge pages.
    pub fn usual() -> Self {
        let threads = thread::available_parallelism().map_or(3, |count| 3 * usize::from(count)).min(THREADS_MAX);
        Self { threads, claimed: 16 }
    }
}

/// Restores the save of `reader` into `memory`, divided by `plan`.
///
/// # Errors
/// As [`super::restore_kept`].
pub(super) fn restore_by_threads(
    reader: &KeptReader<'_>,
    memory: &dyn Memory,
    options: RestoreOptions,
    plan: RestorePlan,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImageSummary> {
    let header = *reader.header();
    restore_by(&header, memory, options, || {
        let used_bytes = fill(reader, memory, plan, watch)?;
        let ImageHeader { image, pool, size, .. } = header;
        Ok(ImageSummary { image, pool, pool_bytes: size, used_bytes, image_bytes: reader.bytes() })
    })
}

/// The chunks that no thread has claimed.
struct UnclaimedChunks {
    next: AtomicU64,
    count: u64,
    claimed: u64,
    is_stopped: AtomicBool,
}

/// Chunks that a thread has restored.
struct RestoredChunks {
    chunks: u64,
    used_bytes: u64,
}

/// Stores all chunks in use of the save of `reader`. Returns the bytes in use.
fn fill(
    reader: &KeptReader<'_>,
    memory: &dyn Memory,
    plan: RestorePlan,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<u64> {
    let count = reader.header().frames;
    let (next, is_stopped) = (AtomicU64::new(0), AtomicBool::new(false));
    let unclaimed = UnclaimedChunks { next, count, claimed: plan.claimed, is_stopped };
    let (mut done, mut used_bytes) = (0, 0);
    let mut note = |restored: RestoredChunks| {
        done += restored.chunks;
        used_bytes += restored.used_bytes;
        if watch(progress("restoring", done, count)) { Ok(()) } else { Err(Error::Cancelled("restoring")) }
    };
    if plan.threads <= 1 {
        fill_part(&mut reader.another(), memory, &unclaimed, &mut note)?;
    } else {
        let (sender, restored) = mpsc::channel();
        let mut result = Ok(());
        thread::scope(|scope| {
            for _ in 0..plan.threads {
                let (mut reader, sender, unclaimed) = (reader.another(), sender.clone(), &unclaimed);
                scope.spawn(move || {
                    // Nothing receives any more if the caller stopped the restore.
                    let mut send = |restored| sender.send(Ok(restored)).map_err(|_| Error::Cancelled("restoring"));
                    if let Err(error) = fill_part(&mut reader, memory, unclaimed, &mut send) {
                        let _ = sender.send(Err(error));
                    }
                });
            }
            drop(sender);
            for part in restored {
                result = part.and_then(&mut note);
                if result.is_err() {
                    break;
                }
            }
            // The threads end when they have restored what they claimed (KR3).
            unclaimed.is_stopped.store(result.is_err(), Ordering::Relaxed);
        });
        result?;
    }
    Ok(used_bytes)
}

/// Restores chunks until none is unclaimed, and makes them durable at a fence (KR2). Calls `note` for each part.
fn fill_part(
    reader: &mut KeptReader<'_>,
    memory: &dyn Memory,
    unclaimed: &UnclaimedChunks,
    note: &mut dyn FnMut(RestoredChunks) -> Result<()>,
) -> Result<()> {
    while !unclaimed.is_stopped.load(Ordering::Relaxed) {
        let first = unclaimed.next.fetch_add(unclaimed.claimed, Ordering::Relaxed);
        if first >= unclaimed.count {
            break;
        }
        let chunks = first..unclaimed.count.min(first + unclaimed.claimed);
        let mut used_bytes = 0;
        let mut found: Vec<(u64, KeptChunk)> = Vec::new();
        for chunk in chunks.clone() {
            found.extend(reader.chunk(chunk)?.map(|pages| (chunk, pages)));
        }
        for run in found.chunk_by(|(chunk, _), (next, _)| chunk + 1 == *next) {
            memory.reserve(Span::new(run[0].0 * CHUNK, run.len() as u64 * CHUNK))?;
        }
        for (chunk, pages) in &found {
            put_chunk(reader, memory, *chunk, pages)?;
            used_bytes += pages.used.count() * PAGE;
        }
        note(RestoredChunks { chunks: chunks.end - chunks.start, used_bytes })?;
    }
    memory.drain().map_err(Error::from)
}

/// Stores the pages that the image holds of `chunk` (KR1), and zeros to its other used pages (BK4).
fn put_chunk(reader: &mut KeptReader<'_>, memory: &dyn Memory, chunk: u64, pages: &KeptChunk) -> Result<()> {
    let start = chunk * CHUNK;
    reader.pages(chunk, |page, bytes| {
        memory.store(start + page * PAGE, bytes, Scheme::Nt);
    })?;
    for page in pages.used.without(pages.carried).runs().flatten() {
        clear(memory, Span::new(start + page * PAGE, PAGE));
    }
    Ok(())
}
