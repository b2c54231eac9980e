//! Files without a file system: places of a mapping like a pool's.

use std::path::Path;
use std::sync::Arc;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Span};
use ferrite_pool::layout::CHUNK;

use super::{FRESH, Folder, Job, Order, RecordFile, Verb, obey};
use crate::Result;
use crate::bare::Bare;
use crate::scratch::Scratch;

/// Bytes of a line that a size has to itself.
const LINE: u64 = 64;

/// A mapping, every page of which has been touched.
pub struct BareFolder {
    memory: Arc<Mapped>,
    /// Only new files are written, and each has a size.
    has_sizes: bool,
    /// How many files were prepared.
    files: u64,
    /// Bytes of each.
    file_bytes: u64,
    _scratch: Scratch,
}

/// A file of it.
pub struct BareFile {
    bare: Bare,
    /// Where its size lies in the mapping.
    end: Option<u64>,
}

impl BareFolder {
    /// One of at least `bytes` in `place`, unguarded; with files that are new, and have sizes, or else with places.
    pub fn new(place: &Path, bytes: u64, has_sizes: bool) -> Result<Self> {
        let (scratch, size) = (Scratch::new(place)?, bytes.next_multiple_of(CHUNK) + CHUNK);
        let options = MapOptions { guard: Guard::None, name: "the bare copy".into(), ..MapOptions::default() };
        let memory = Mapped::map(scratch.file("bare", size)?, &options)?;
        memory.reserve(Span::new(0, size))?;
        Ok(Self { memory: Arc::new(memory), has_sizes, files: 1, file_bytes: 0, _scratch: scratch })
    }

    /// Whether `order` is one for it.
    pub fn takes(&self, order: &Order) -> bool {
        match order {
            Order::Work(Job { verb, .. }) => !self.has_sizes || *verb == Verb::Write,
            Order::Name(..) => false,
            _ => true,
        }
    }

    /// Has `order` done.
    pub fn order(&mut self, order: &Order) -> Result<f64> {
        if let Order::Prepare { files, file_bytes } = *order {
            (self.files, self.file_bytes) = (files, if self.has_sizes { 0 } else { file_bytes });
            if self.has_sizes {
                return Ok(0.0);
            }
        }
        obey(self, order)
    }

    /// Files that were prepared lie one after the other; behind them, in equal parts, is room for those that are written
    /// anew, and then for sizes.
    fn file(&self, name: &str) -> BareFile {
        let (kind, number) = name.rsplit_once('-').expect("files have numbers");
        let number: u64 = number.parse().expect("files have numbers");
        let (behind, memory, sizes) =
            (self.files * self.file_bytes, Arc::clone(&self.memory), self.memory.size() - CHUNK);
        let room = (sizes - behind) / self.files / CHUNK * CHUNK;
        let at = if kind == FRESH { behind + number * room } else { number * self.file_bytes };
        BareFile { bare: Bare::new(memory, at), end: self.has_sizes.then_some(sizes + number * LINE) }
    }
}

impl Folder for BareFolder {
    type File = BareFile;

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
mod tests {
    use super::*;
    use crate::records::data;

    /// Were two files one place, threads would fight over lines that no file system has them share.
    #[test]
    fn files_lie_beside_each_other_and_keep_what_is_written() {
        let place = tempfile::tempdir().expect("a folder");
        let mut folder = BareFolder::new(place.path(), 8 << 20, false).expect("it can be mapped");
        let bytes = 1 << 20;
        folder.order(&Order::Prepare { files: 2, file_bytes: bytes }).expect("there is room");
        let names = [data(0), data(1), format!("{FRESH}-0"), format!("{FRESH}-1")];
        let files: Vec<BareFile> = names.iter().map(|name| folder.create(name).expect("a place")).collect();
        for (number, file) in (1..).zip(&files) {
            [0, bytes - 64].into_iter().for_each(|at| file.write(at, &[number; 64]).expect("written"));
        }
        for (number, file) in (1..).zip(&files) {
            for at in [0, bytes - 64] {
                let mut found = [0; 64];
                file.read(at, &mut found).expect("read");
                assert_eq!(found, [number; 64], "file {number} at {at}");
            }
        }
    }
}
