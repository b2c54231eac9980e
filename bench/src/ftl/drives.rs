//! Drives that a running load wears: its trace goes to them through pipes and is not kept.

use std::io::{self, BufWriter, PipeReader, PipeWriter, Write};
use std::path::Path;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use ferrite_sim::TraceInput;
use ferrite_sim::block_trace::{BlockReadAhead, BlockTraceReader, ReaderOptions};
use ferrite_sim::ftl::{
    AnyLayer, DriveSpec, FlashDrive, FlashFigures, FlashShape, FlashTiming, FtlScheme, TraceReplay,
};

use super::{LIKE, OVER_PROVISION_PERCENT, SCHEMES};
use crate::{Error, Result};

/// Bytes of the trace that are passed on at once.
const CHUNK: usize = 64 << 10;

/// Drives that replay a trace, one of each scheme.
pub(crate) struct Drives {
    pipes: Pipes,
    replaying: Vec<JoinHandle<Result<FlashFigures>>>,
}

type Pipes = Arc<Mutex<Vec<PipeWriter>>>;

impl Drives {
    /// Full drives of `bytes`. Make them before the load runs: allocating during the load could write back its own disk.
    pub(crate) fn of(bytes: u64) -> Result<Self> {
        let (pipes, mut replaying) = (Pipes::default(), Vec::new());
        for (_, scheme) in SCHEMES {
            let (pipe, writer) = io::pipe().map_err(Error::io("making a pipe"))?;
            let drive = in_use(scheme, bytes)?;
            replaying.push(thread::spawn(move || replay(drive, pipe)));
            lock(&pipes).push(writer);
        }
        Ok(Self { pipes, replaying })
    }

    /// A writer that passes the trace on to every drive.
    pub(crate) fn trace(&self) -> impl Write + Send + use<> {
        BufWriter::with_capacity(CHUNK, All(Arc::clone(&self.pipes)))
    }

    /// Ends the trace, even if a writer still exists, and returns the figures of each drive.
    pub(crate) fn end(self) -> Result<Vec<FlashFigures>> {
        lock(&self.pipes).clear();
        let ended = |one: JoinHandle<_>| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.replaying.into_iter().map(ended).collect()
    }
}

fn lock(pipes: &Pipes) -> MutexGuard<'_, Vec<PipeWriter>> {
    pipes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A drive of `bytes`, all of whose pages are in use.
pub(super) fn in_use(scheme: FtlScheme, bytes: u64) -> Result<FlashDrive<AnyLayer>> {
    let shape = FlashShape::of_bytes(bytes, OVER_PROVISION_PERCENT, LIKE)?;
    let mut drive = DriveSpec { scheme, shape, timing: FlashTiming::default() }.build()?;
    drive.prefill()?;
    Ok(drive)
}

fn replay(mut drive: FlashDrive<AnyLayer>, pipe: PipeReader) -> Result<FlashFigures> {
    let options = ReaderOptions { page_bytes: LIKE.page_bytes, format: None, device: None };
    let input = TraceInput::over(Path::new("the trace of the load"), pipe)?;
    let mut trace = BlockReadAhead::new(BlockTraceReader::new(input, options)?)?;
    TraceReplay::default().run(&mut trace, slice::from_mut(&mut drive), &mut |_| true)?;
    Ok(drive.figures()?)
}

/// A writer to all pipes.
struct All(Pipes);

impl Write for All {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).iter_mut().try_for_each(|one| one.write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
