//! Which page is named by whom.

use std::collections::BTreeMap;

use ferrite_pool::layout::CHUNK_PAGES;

use super::{Media, Wrong};
use crate::Ino;
use crate::space::ChunkKind;

/// Pages that are named, and the inode that does.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<u64, Ino>);

impl Claims {
    /// Inode `ino` names `page` of a chunk of kind `kind`, by the word at `at`. Whether that may be: where not, the page
    /// is not looked into.
    pub fn claim(&mut self, media: &Media<'_>, (page, kind): (u64, ChunkKind), ino: Ino, at: u64) -> Result<(), Wrong> {
        if media.chunk_of(page, kind).is_none() || (kind == ChunkKind::Super && !page.is_multiple_of(CHUNK_PAGES)) {
            return Err(Wrong::new(
                format!("inode {} names page {page}, which is not of the kind it needs", ino.0),
                at,
            ));
        }
        match self.0.insert(page, ino) {
            Some(other) => {
                self.0.insert(page, other);
                Err(Wrong::new(format!("inode {} names page {page}, which inode {} names too", ino.0, other.0), at))
            }
            None => Ok(()),
        }
    }

    /// What the bitmaps say otherwise.
    pub fn against_bitmaps(&self, media: &Media<'_>, wrong: &mut Vec<Wrong>) {
        for (number, chunk) in media.chunks.iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            let (first, at) = (number as u64 * CHUNK_PAGES, media.map.descriptor(number as u64));
            if chunk.kind == ChunkKind::Super && !self.0.contains_key(&first) {
                wrong.push(Wrong::new(format!("chunk {number} is a superpage that no file names"), at));
            }
            if !matches!(chunk.kind, ChunkKind::Data | ChunkKind::Index) {
                continue;
            }
            for index in 0..CHUNK_PAGES {
                let marked = chunk.bitmap[(index / 64) as usize] >> (index % 64) & 1 == 1;
                match (self.0.get(&(first + index)), marked) {
                    (Some(ino), false) => {
                        let what = format!("page {} of inode {} is marked free", first + index, ino.0);
                        wrong.push(Wrong::new(what, at));
                    }
                    (None, true) => {
                        wrong.push(Wrong::new(
                            format!("page {} is marked in use and nobody names it", first + index),
                            at,
                        ));
                    }
                    _ => {}
                }
            }
        }
    }
}
