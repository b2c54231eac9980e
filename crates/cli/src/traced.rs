//! A disk whose requests are recorded in a file, as fio's iolog.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrite_disk::{Clock, Disk, Trace, TraceDisk, TraceFormat};
use ferrite_disk_address::HostClock;

use crate::commands::sim::output::Output;
use crate::outcome::{Failure, Outcome};

/// The disk's name in the trace: fio accepts a name without blanks.
const NAME: &str = "disk";

/// A disk over another, and the trace of its requests. If it is dropped before its end, the old file stays.
pub struct Traced {
    disk: Arc<dyn Disk>,
    finish: Box<dyn FnOnce() -> ferrite_memory::Result<()>>,
    path: PathBuf,
    output: Shared,
}

impl Traced {
    /// Returns a traced disk over `disk`, with its trace in the file at `path` from now on.
    pub fn begin(disk: &Arc<dyn Disk>, path: &Path) -> Outcome<Self> {
        if path == Path::new("-") {
            let what = "standard output says where the disk is served: name a file or a pipe for the trace";
            return Err(Failure::Usage(what.into()));
        }
        let output = Shared(Arc::new(Mutex::new(Some(Output::begin(path)?))));
        let clock = HostClock::new();
        let trace = Trace {
            format: TraceFormat::FioIolog,
            name: NAME.into(),
            clock_ns: move || clock.now_ns(),
            to: Box::new(BufWriter::new(output.clone())),
        };
        let disk = Arc::new(TraceDisk::new(Arc::clone(disk), trace));
        let traced = Arc::clone(&disk);
        Ok(Self { disk, finish: Box::new(move || traced.finish()), path: path.into(), output })
    }

    /// Returns the traced disk.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Ends the trace. Only a complete trace replaces the old file.
    pub fn finish(self) -> Outcome {
        let describe = |error| format!("{}: {error}", self.path.display());
        (self.finish)().map_err(describe)?;
        let output = self.output.lock().take();
        output.map_or(Ok(()), Output::finish)
    }
}

/// The shared output of the trace. The writer of the trace keeps it, and the caller that began the trace finishes it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Output>>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Output>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().as_mut().map_or(Ok(bytes.len()), |output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().as_mut().map_or(Ok(()), Write::flush)
    }
}
