//! What `check` asks of a disk: that its map names blocks that are there, each once.

use ferrite_medium::Span;
use ferrite_pool::check::{Findings, TagOwner};
use ferrite_pool::{Pool, Result, Role, Stream, Tag, TagKind};

use crate::map::Entry;
use crate::shape::{BLOCK, Shape};

/// The owner of disks, for `check`.
pub struct DiskOwner;

/// A map word that cannot be right.
struct Wrong {
    /// Block of the disk.
    index: u64,
    /// Where the word lies in the pool.
    at: u64,
    what: String,
}

impl TagOwner for DiskOwner {
    fn kind(&self) -> TagKind {
        TagKind::DISK
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut Findings<'_>) {
        match wrong_words(pool, tag) {
            Ok(wrong) => wrong.into_iter().for_each(|wrong| findings.error(wrong.what, Some(wrong.at))),
            Err(error) => findings.error(error.to_string(), None),
        }
    }

    /// A word that cannot be right is cleared: its block reads as zeros, and what it held is lost.
    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut Findings<'_>) -> Result<()> {
        let wrong = match wrong_words(pool, tag) {
            Ok(wrong) => wrong,
            Err(error) => {
                findings.error(error.to_string(), None);
                return Ok(());
            }
        };
        for Wrong { index, at, what } in wrong {
            pool.memory().store_word(at, 0);
            pool.memory().persist(Span::new(at, 8))?;
            let first = index * BLOCK;
            let lost =
                format!("the disk's bytes {first} to {} read as zeros now; what they held is lost", first + BLOCK);
            findings.repaired(what, Some(at), lost);
        }
        Ok(())
    }
}

fn wrong_words(pool: &Pool, tag: &Tag) -> Result<Vec<Wrong>> {
    let shape = Shape::read(tag)?;
    let words = Stream::new(&tag.extents, Role::MAP);
    let data_blocks = Stream::new(&tag.extents, Role::DATA).len() / BLOCK;
    let (mut named, mut wrong) = (vec![false; data_blocks as usize], Vec::new());
    for index in 0..shape.blocks {
        let at = words.locate(index * 8).expect("the shape was checked").at;
        let Some(block) = Entry::from_media(pool.memory().load_word(at)).block() else { continue };
        let what = match named.get_mut(block as usize) {
            None => format!("block {index} is said to be in block {block}, of which there are only {data_blocks}"),
            Some(named) if *named => format!("block {index} is said to be in block {block}, where another one is"),
            Some(named) => {
                *named = true;
                continue;
            }
        };
        wrong.push(Wrong { index, at, what });
    }
    Ok(wrong)
}
