//! Which chunk of the pool has which number (FC3).

use std::collections::{BTreeMap, BTreeSet};

use ferrite_memory::{Memory, Span};
use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};
use ferrite_pool::{Extent, Role, Tag};

use crate::Result;
use crate::format::layout::{ChunkKind, DESCRIPTOR, MapPages, is_in_use};
use crate::store::ChunkStore;

impl ChunkStore {
    /// Makes each chunk word name the single place of its chunk, and adopts chunks that no word names. If a word names
    /// an unknown place, or no place while its chunk is in use, nothing is written: a spare chunk may be the missing
    /// one (FC3).
    pub(crate) fn bind_chunks(&self, tag: &Tag) -> Result<()> {
        let mut words: Vec<(u64, u64)> =
            (0..self.space.chunks()).map(|number| (self.space.map.chunk_word(number), 0)).collect();
        self.space.places().for_each(|(base, number)| words[number as usize].1 = base / CHUNK + 1);
        let is_any_spare = chunks_of(&tag.extents).count() > self.space.places().count();
        let is_lost = |(number, (at, word)): &(u64, &(u64, u64))| {
            let is_used = || *number == 0 || is_in_use(&*self.memory, self.space.map.descriptor(*number));
            *word == 0 && (self.memory.load_word(*at) != 0 || is_any_spare && is_used())
        };
        let lost = (0..).zip(&words).find(is_lost).map(|(_, (at, _))| *at);
        match lost {
            Some(_) if self.options.read_only => return Ok(()),
            Some(at) => return Err(self.corrupt("where a chunk lies", at)),
            None => {}
        }
        for (at, word) in words {
            if self.memory.load_word(at) != word {
                self.memory.store_word(at, word);
                self.memory.flush(Span::new(at, 8));
            }
        }
        self.drain()?;
        self.adopt_spare(tag)
    }

    /// Gives each chunk that the tag has and no word names a number (FC3).
    pub(crate) fn adopt_spare(&self, tag: &Tag) -> Result<()> {
        let known: BTreeSet<u64> = self.space.places().map(|(base, _)| base).collect();
        let spare = chunks_of(&tag.extents).filter(|base| !known.contains(base));
        for (base, number) in spare.zip(self.space.absent().collect::<Vec<_>>()) {
            let word = self.space.map.chunk_word(number);
            self.persist_kind_free(number)?;
            self.memory.store_word(word, base / CHUNK + 1);
            self.memory.persist(Span::new(word, 8))?;
            self.space.set_kind(number, ChunkKind::Free);
            self.space.set_base(number, base);
        }
        Ok(())
    }

    /// Marks a number as empty before another chunk gets it.
    fn persist_kind_free(&self, number: u64) -> Result<()> {
        if self.memory.load_word(self.space.map.descriptor(number)) == ChunkKind::Free as u64 {
            return Ok(());
        }
        let mut transaction = self.pool.transaction();
        transaction.zero(Span::new(self.space.map.descriptor(number), DESCRIPTOR));
        Ok(transaction.commit()?)
    }
}

/// Returns the places of the chunks of the DATA stream.
fn chunks_of(extents: &[Extent]) -> impl Iterator<Item = u64> {
    let data = extents.iter().filter(|extent| extent.role == Role::DATA);
    data.flat_map(|extent| (extent.page..extent.end()).step_by(CHUNK_PAGES as usize).map(|page| page * PAGE))
}

/// Returns where each chunk lies, by its number; 0 if no chunk has that number (FC3).
pub(crate) fn bases(memory: &dyn Memory, map: &MapPages, extents: &[Extent]) -> Vec<u64> {
    let mut free: BTreeMap<u64, ()> = chunks_of(extents).map(|base| (base / CHUNK + 1, ())).collect();
    let mut base = |number| {
        let word = memory.load_word(map.chunk_word(number));
        let named = [word & u64::from(u32::MAX), word >> 32];
        let chunk = named.into_iter().find(|chunk| free.remove(chunk).is_some());
        chunk.map_or(0, |chunk| (chunk - 1) * CHUNK)
    };
    (0..map.chunks()).map(&mut base).collect()
}
