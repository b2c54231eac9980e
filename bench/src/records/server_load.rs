//! A file server's files (filebench's mix of the same name): made and written whole, appended to, read whole, looked up and
//! removed.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{RecordFile, RecordFolder};
use crate::Result;
use crate::bench_random::BenchRandom;
use crate::copy_buffer::CopyBuffer;

/// Bytes of an append, and the largest single read or write.
const APPEND_BYTES: u64 = 16 << 10;

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

fn name(number: u64) -> String {
    format!("served-{number}")
}

impl ServerLoad {
    /// Makes the files, or runs the operations on files that were made. Returns operations a second.
    pub fn run<F: RecordFolder>(&self, folder: &F) -> Result<f64> {
        let (mut random, start) = (BenchRandom::new(self.seed), Instant::now());
        let mut buffer = CopyBuffer::new(APPEND_BYTES as usize);
        if self.operations == 0 {
            (0..self.files).try_for_each(|number| self.write_whole(folder, number, &mut random, &buffer).map(drop))?;
            return Ok(self.files as f64 / start.elapsed().as_secs_f64());
        }
        for number in 1..=self.operations {
            let written = self.operate(folder, &mut random, &mut buffer)?;
            if let Some(file) = written.filter(|_| self.sync_every > 0 && number % self.sync_every == 0) {
                file.sync()?;
            }
        }
        Ok(self.operations as f64 / start.elapsed().as_secs_f64())
    }

    /// Runs one operation. Returns the file that it wrote.
    fn operate<F: RecordFolder>(
        &self,
        folder: &F,
        random: &mut BenchRandom,
        buffer: &mut CopyBuffer,
    ) -> Result<Option<F::OpenFile>> {
        let file = random.below(self.files);
        let file_name = name(file);
        match random.below(4) {
            // A removed file is made again, so that the number of files stays.
            0 => {
                folder.remove(&file_name)?;
                self.write_whole(folder, file, random, buffer).map(Some)
            }
            1 => {
                let (bytes, open) = (folder.stat(&file_name)?, folder.open(&file_name)?);
                if bytes < 3 * self.mean_bytes {
                    open.write(bytes, buffer.bytes())?;
                }
                Ok(Some(open))
            }
            2 => {
                let (bytes, open) = (folder.stat(&file_name)?, folder.open(&file_name)?);
                (0..bytes).step_by(APPEND_BYTES as usize).try_for_each(|at| {
                    let len = (bytes - at).min(APPEND_BYTES) as usize;
                    open.read(at, &mut buffer.bytes_mut()[..len])
                })?;
                Ok(None)
            }
            _ => folder.stat(&file_name).map(|_| None),
        }
    }

    fn write_whole<F: RecordFolder>(
        &self,
        folder: &F,
        file: u64,
        random: &mut BenchRandom,
        buffer: &CopyBuffer,
    ) -> Result<F::OpenFile> {
        let (bytes, open) = (self.mean_bytes / 2 + random.below(self.mean_bytes), folder.create(&name(file))?);
        (0..bytes).step_by(APPEND_BYTES as usize).try_for_each(|at| {
            let len = (bytes - at).min(APPEND_BYTES) as usize;
            open.write(at, &buffer.bytes()[..len])
        })?;
        Ok(open)
    }
}
