//! Files without a file system: places of a mapping like a pool's.

use std::path::Path;
use std::sync::Arc;

use ferrite_medium::{Guard, MapOptions, Mapped, Memory, Span};
use ferrite_pool::layout::CHUNK;

use super::{FRESH, Folder, Order, RecordFile, obey};
use crate::Result;
use crate::bare::Bare;
use crate::scratch::Scratch;

/// A mapping, every page of which has been touched.
pub struct BareFolder {
    memory: Arc<Mapped>,
    /// How many files were prepared.
    files: u64,
    /// Bytes of each.
    file_bytes: u64,
    _scratch: Scratch,
}

impl BareFolder {
    /// One of at least `bytes` in `place`, unguarded.
    pub fn new(place: &Path, bytes: u64) -> Result<Self> {
        let (scratch, size) = (Scratch::new(place)?, bytes.next_multiple_of(CHUNK));
        let options = MapOptions { guard: Guard::None, name: "the bare copy".into(), ..MapOptions::default() };
        let memory = Mapped::map(scratch.file("bare", size)?, &options)?;
        memory.reserve(Span::new(0, size))?;
        Ok(Self { memory: Arc::new(memory), files: 1, file_bytes: 0, _scratch: scratch })
    }

    /// Has `order` done.
    pub fn order(&mut self, order: &Order) -> Result<f64> {
        if let Order::Prepare { files, file_bytes } = *order {
            (self.files, self.file_bytes) = (files, file_bytes);
        }
        obey(self, order)
    }

    /// Files that were prepared lie one after the other; behind them, in equal parts, is room for those that are written
    /// anew.
    fn file(&self, name: &str) -> Bare {
        let (kind, number) = name.rsplit_once('-').expect("files have numbers");
        let number: u64 = number.parse().expect("files have numbers");
        let (behind, memory) = (self.files * self.file_bytes, Arc::clone(&self.memory));
        let room = (memory.size() - behind) / self.files / CHUNK * CHUNK;
        let at = if kind == FRESH { behind + number * room } else { number * self.file_bytes };
        Bare::new(memory, at)
    }
}

impl Folder for BareFolder {
    type File = Bare;

    fn create(&self, name: &str) -> Result<Bare> {
        Ok(self.file(name))
    }

    fn open(&self, name: &str) -> Result<Bare> {
        Ok(self.file(name))
    }

    fn stat(&self, _: &str) -> Result<u64> {
        Ok(self.file_bytes)
    }

    fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

impl RecordFile for Bare {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Bare::read(self, at, into);
        Ok(())
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        Bare::write(self, at, from);
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
        let mut folder = BareFolder::new(place.path(), 8 << 20).expect("it can be mapped");
        let bytes = 1 << 20;
        folder.order(&Order::Prepare { files: 2, file_bytes: bytes }).expect("there is room");
        let names = [data(0), data(1), format!("{FRESH}-0"), format!("{FRESH}-1")];
        let files: Vec<Bare> = names.iter().map(|name| folder.create(name).expect("a place")).collect();
        for (number, file) in (1..).zip(&files) {
            [0, bytes - 64].into_iter().for_each(|at| file.write(at, &[number; 64]));
        }
        for (number, file) in (1..).zip(&files) {
            for at in [0, bytes - 64] {
                let mut found = [0; 64];
                file.read(at, &mut found);
                assert_eq!(found, [number; 64], "file {number} at {at}");
            }
        }
    }
}
