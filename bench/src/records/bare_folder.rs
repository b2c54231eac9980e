//! Files without a file system: places of a mapping like the mapping of a pool.

use std::path::Path;
use std::sync::Arc;

use ferrite_memory::{Guard, Mapped, Memory};
use ferrite_pool::layout::CHUNK;

use super::{FRESH, FileOrder, RecordFile, RecordFolder, RecordJob, RecordVerb, carry_out};
use crate::Result;
use crate::bare_copy::BareCopy;
use crate::scratch::Scratch;

/// Bytes of a line that a size has to itself.
const LINE: u64 = 64;

/// A mapping, every page of which has been touched.
pub struct BareFolder {
    memory: Arc<Mapped>,
    /// Only new files are written, and each has a size.
    has_sizes: bool,
    /// The number of prepared files.
    files: u64,
    /// Bytes of each prepared file.
    file_bytes: u64,
    _scratch: Scratch,
}

/// A file of a [`BareFolder`].
pub struct BareFile {
    bare: BareCopy,
    /// The offset of the size in the mapping.
    end: Option<u64>,
}

impl BareFolder {
    /// A mapping of at least `bytes` in `place`, unguarded. If `has_sizes` is true, files are new and have sizes.
    pub fn new(place: &Path, bytes: u64, has_sizes: bool) -> Result<Self> {
        let (scratch, size) = (Scratch::new(place)?, bytes.next_multiple_of(CHUNK) + CHUNK);
        let memory = scratch.mapped("bare", size, Guard::None)?;
        Ok(Self { memory: Arc::new(memory), has_sizes, files: 1, file_bytes: 0, _scratch: scratch })
    }

    /// Whether the folder can carry out `order`.
    pub fn takes(&self, order: &FileOrder) -> bool {
        match order {
            FileOrder::Work(RecordJob { verb, .. }) => !self.has_sizes || *verb == RecordVerb::Write,
            FileOrder::Name(..) | FileOrder::Pages(_) | FileOrder::Serve(_) => false,
            _ => true,
        }
    }

    /// Carries out `order`.
    pub fn order(&mut self, order: &FileOrder) -> Result<f64> {
        if let FileOrder::Prepare { files, file_bytes } = *order {
            (self.files, self.file_bytes) = (files, if self.has_sizes { 0 } else { file_bytes });
            if self.has_sizes {
                return Ok(0.0);
            }
        }
        carry_out(self, order)
    }

    /// Prepared files lie one after the other. Behind them are equal parts for new files, and then sizes.
    fn file(&self, name: &str) -> BareFile {
        let (kind, number) = name.rsplit_once('-').expect("files have numbers");
        let number: u64 = number.parse().expect("files have numbers");
        let (behind, memory, sizes) =
            (self.files * self.file_bytes, Arc::clone(&self.memory), self.memory.size() - CHUNK);
        let room = (sizes - behind) / self.files / CHUNK * CHUNK;
        let at = if kind == FRESH { behind + number * room } else { number * self.file_bytes };
        BareFile { bare: BareCopy::new(memory, at), end: self.has_sizes.then_some(sizes + number * LINE) }
    }
}

impl RecordFolder for BareFolder {
    type OpenFile = BareFile;

    fn create(&self, name: &str) -> Result<BareFile> {
        Ok(self.file(name))
    }

    fn open(&self, name: &str) -> Result<BareFile> {
        Ok(self.file(name))
    }

    fn stat(&self, _: &str) -> Result<u64> {
        Ok(self.file_bytes)
    }

    fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

impl RecordFile for BareFile {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.bare.read(at, into);
        Ok(())
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        match self.end {
            Some(end) => self.bare.append(at, from, end),
            None => self.bare.write(at, from),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
