//! A file server's files (filebench's mix of the same name): made and written whole, appended to, read whole, looked up and
//! removed.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{RecordFile, RecordFolder};
use crate::Result;
use crate::bench_random::BenchRandom;
use crate::copy_buffer::CopyBuffer;

/// Bytes of an append, and the largest single read or write.
pub const APPEND_BYTES: u64 = 16 << 10;

/// Operations on the files of a server by one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerLoad {
    /// The number of files.
    pub files: u64,
    /// Bytes of a file on average.
    pub mean_bytes: u64,
    /// The number of operations; 0 only makes the files.
    pub operations: u64,
    /// Operations after which the last file is synced; 0 for never.
    pub sync_every: u64,
    /// The seed of the order.
    pub seed: u64,
}

/// A request to a file of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// The number of the file.
    pub file: u64,
    /// The work on it.
    pub verb: ServerVerb,
}

/// The work of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerVerb {
    /// The file is made, with so many bytes.
    Make(u64),
    /// The file is removed and made again, with so many bytes.
    Replace(u64),
    /// The file grows by [`APPEND_BYTES`], if it is smaller than [`ServerLoad::grown_bytes`].
    Append,
    /// The file is read whole.
    Read,
    /// The file is looked up.
    Stat,
}

fn name(number: u64) -> String {
    format!("served-{number}")
}

impl ServerLoad {
    /// Bytes from which a file does not grow.
    pub fn grown_bytes(&self) -> u64 {
        3 * self.mean_bytes
    }

    /// Returns the requests in their order: those that make the files, or the operations.
    pub fn requests(&self) -> impl Iterator<Item = ServerRequest> + use<> {
        let (load, mut random) = (*self, BenchRandom::new(self.seed));
        (0..if self.operations == 0 { self.files } else { self.operations }).map(move |number| {
            let whole = |random: &mut BenchRandom| load.mean_bytes / 2 + random.below(load.mean_bytes);
            if load.operations == 0 {
                return ServerRequest { file: number, verb: ServerVerb::Make(whole(&mut random)) };
            }
            let file = random.below(load.files);
            let verb = match random.below(4) {
                // A removed file is made again, so that the number of files stays.
                0 => ServerVerb::Replace(whole(&mut random)),
                1 => ServerVerb::Append,
                2 => ServerVerb::Read,
                _ => ServerVerb::Stat,
            };
            ServerRequest { file, verb }
        })
    }

    /// Makes the files, or runs the operations on files that were made. Returns requests a second.
    pub fn run<F: RecordFolder>(&self, folder: &F) -> Result<f64> {
        let (mut buffer, start, mut count) = (CopyBuffer::new(APPEND_BYTES as usize), Instant::now(), 0);
        for request in self.requests() {
            count += 1;
            let written = self.carry_out(folder, request, &mut buffer)?;
            if let Some(file) = written.filter(|_| self.sync_every > 0 && count % self.sync_every == 0) {
                file.sync()?;
            }
        }
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }

    /// Carries out one request. Returns the file that it wrote.
    fn carry_out<F: RecordFolder>(
        &self,
        folder: &F,
        request: ServerRequest,
        buffer: &mut CopyBuffer,
    ) -> Result<Option<F::OpenFile>> {
        let name = name(request.file);
        match request.verb {
            ServerVerb::Make(bytes) => write_whole(folder, &name, bytes, buffer).map(Some),
            ServerVerb::Replace(bytes) => {
                folder.remove(&name)?;
                write_whole(folder, &name, bytes, buffer).map(Some)
            }
            ServerVerb::Append => {
                let (bytes, open) = (folder.stat(&name)?, folder.open(&name)?);
                if bytes < self.grown_bytes() {
                    open.write(bytes, buffer.bytes())?;
                }
                Ok(Some(open))
            }
            ServerVerb::Read => {
                let (bytes, open) = (folder.stat(&name)?, folder.open(&name)?);
                (0..bytes).step_by(APPEND_BYTES as usize).try_for_each(|at| {
                    let len = (bytes - at).min(APPEND_BYTES) as usize;
                    open.read(at, &mut buffer.bytes_mut()[..len])
                })?;
                Ok(None)
            }
            ServerVerb::Stat => folder.stat(&name).map(|_| None),
        }
    }
}

fn write_whole<F: RecordFolder>(folder: &F, name: &str, bytes: u64, buffer: &CopyBuffer) -> Result<F::OpenFile> {
    let open = folder.create(name)?;
    (0..bytes).step_by(APPEND_BYTES as usize).try_for_each(|at| {
        let len = (bytes - at).min(APPEND_BYTES) as usize;
        open.write(at, &buffer.bytes()[..len])
    })?;
    Ok(open)
}
