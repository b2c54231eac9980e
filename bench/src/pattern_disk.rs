//! A disk of blocks that repeat one word, which takes little memory: simulations of large drives work on it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrite_disk::{Access, Disk, Geometry, Zeroing};
use ferrite_memory::{Result, Span};

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// The word of a block that is kept whole.
const WHOLE: u64 = u64::MAX;

/// A disk of zeros at first. A block that repeats one word takes 8 bytes of memory, another one all its bytes.
pub struct PatternDisk {
    geometry: Geometry,
    blocks: Mutex<PatternBlocks>,
}

struct PatternBlocks {
    words: Vec<u64>,
    whole: HashMap<u64, Box<[u8]>>,
}

/// Returns the word that `block` repeats, if it repeats one.
pub fn word_of(block: &[u8]) -> Option<u64> {
    let word = *block.first_chunk::<8>()?;
    (block[8..] == block[..block.len() - 8]).then_some(u64::from_le_bytes(word))
}

/// Fills `block` with `word`.
pub fn fill_with(block: &mut [u8], word: u64) {
    block.as_chunks_mut::<8>().0.fill(word.to_le_bytes());
}

impl PatternBlocks {
    /// Copies a part of block `number` out.
    fn load(&self, number: u64, offset: usize, into: &mut [u8]) {
        match self.words[number as usize] {
            WHOLE => into.copy_from_slice(&self.whole[&number][offset..offset + into.len()]),
            word => fill_with(into, word),
        }
    }

    /// Stores a whole block.
    fn store(&mut self, number: u64, block: &[u8]) {
        let before = self.words[number as usize];
        match word_of(block).filter(|word| *word != WHOLE) {
            Some(word) => {
                if before == WHOLE {
                    self.whole.remove(&number);
                }
                self.words[number as usize] = word;
            }
            None => {
                self.whole.insert(number, block.into());
                self.words[number as usize] = WHOLE;
            }
        }
    }
}

impl PatternDisk {
    /// A disk of `size` bytes, rounded down to whole blocks.
    pub fn new(size: u64) -> Self {
        let geometry = Geometry {
            size: size / BLOCK * BLOCK,
            sector_bytes: 512,
            atomic_bytes: 512,
            preferred_bytes: BLOCK as u32,
            volatile_cache: false,
            read_only: false,
            trim: true,
            identity: [0; 16],
        };
        let blocks = PatternBlocks { words: vec![0; (size / BLOCK) as usize], whole: HashMap::new() };
        Self { geometry, blocks: Mutex::new(blocks) }
    }

    fn lock(&self) -> MutexGuard<'_, PatternBlocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes each part of `span` that lies in one block to `by`: the block, the offset in it, and the offset in the span.
    fn parts(span: Span, mut by: impl FnMut(u64, usize, std::ops::Range<usize>)) {
        let mut done = 0;
        while done < span.len {
            let at = span.at + done;
            let len = (BLOCK - at % BLOCK).min(span.len - done);
            by(at / BLOCK, (at % BLOCK) as usize, done as usize..(done + len) as usize);
            done += len;
        }
    }
}

impl Disk for PatternDisk {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        self.check(span)?;
        let blocks = self.lock();
        Self::parts(span, |number, offset, part| blocks.load(number, offset, &mut into[part]));
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], _: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        self.check(span)?;
        let mut blocks = self.lock();
        Self::parts(span, |number, offset, part| {
            if part.len() as u64 == BLOCK {
                return blocks.store(number, &from[part]);
            }
            let mut block = [0; BLOCK as usize];
            blocks.load(number, 0, &mut block);
            block[offset..offset + part.len()].copy_from_slice(&from[part]);
            blocks.store(number, &block);
        });
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.write_zeroes(span, Zeroing { access, ..Zeroing::default() })
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.check(span)?;
        let zeros = [0; BLOCK as usize];
        let mut done = 0;
        while done < span.len {
            let at = span.at + done;
            let len = (BLOCK - at % BLOCK).min(span.len - done);
            self.write(at, &zeros[..len as usize], how.access)?;
            done += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
