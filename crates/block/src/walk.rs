//! What `check` asks of a disk: that its map names blocks that are there, each once, and that each holds what its
//! checksum says.

use ferrite_medium::Span;
use ferrite_pool::check::{Findings, TagOwner};
use ferrite_pool::{Pool, Result, Role, Stream, Tag, TagKind};

use crate::checksum::checksum_of;
use crate::map::Word;
use crate::shape::{BLOCK, Shape};

/// The owner of disks, for `check`.
pub struct DiskOwner;

/// What a walk found.
#[derive(Default)]
struct Found {
    wrong: Vec<Wrong>,
    damaged: Vec<Damaged>,
}

/// A map word that cannot be right.
struct Wrong {
    /// Block of the disk.
    index: u64,
    /// Where the word lies in the pool.
    at: u64,
    what: String,
}

/// A block that is not what its checksum says.
struct Damaged {
    /// Block of the disk.
    index: u64,
    /// Where it lies in the pool.
    at: u64,
}

impl Damaged {
    fn tell(&self, findings: &mut Findings<'_>) {
        let first = self.index * BLOCK;
        let what = format!(
            "block {} of the disk (its bytes {first} to {}) is damaged: it is not what its checksum says. Reading it \
             is an error until all of it is written again or trimmed",
            self.index,
            first + BLOCK
        );
        findings.error(what, Some(self.at));
    }
}

impl TagOwner for DiskOwner {
    fn kind(&self) -> TagKind {
        TagKind::DISK
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut Findings<'_>) {
        match look(pool, tag) {
            Ok(found) => {
                found.wrong.into_iter().for_each(|wrong| findings.error(wrong.what, Some(wrong.at)));
                found.damaged.iter().for_each(|damaged| damaged.tell(findings));
            }
            Err(error) => findings.error(error.to_string(), None),
        }
    }

    /// A word that cannot be right is cleared: its block reads as zeros, and what it held is lost. A damaged block is
    /// left as it is: an error tells its reader more than zeros would.
    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut Findings<'_>) -> Result<()> {
        let found = match look(pool, tag) {
            Ok(found) => found,
            Err(error) => {
                findings.error(error.to_string(), None);
                return Ok(());
            }
        };
        for Wrong { index, at, what } in found.wrong {
            pool.memory().store_word(at, 0);
            pool.memory().persist(Span::new(at, 8))?;
            let first = index * BLOCK;
            let lost =
                format!("the disk's bytes {first} to {} read as zeros now; what they held is lost", first + BLOCK);
            findings.repaired(what, Some(at), lost);
        }
        found.damaged.iter().for_each(|damaged| damaged.tell(findings));
        Ok(())
    }
}

fn look(pool: &Pool, tag: &Tag) -> Result<Found> {
    let shape = Shape::read(tag)?;
    let words = Stream::new(&tag.extents, Role::MAP);
    let data = Stream::new(&tag.extents, Role::DATA);
    let data_blocks = data.len() / BLOCK;
    let (mut named, mut found) = (vec![false; data_blocks as usize], Found::default());
    for index in 0..shape.blocks {
        let at = words.locate(index * 8).expect("the shape was checked").at;
        let word = Word(pool.memory().load_word(at));
        let Some(block) = word.entry().block() else { continue };
        let what = match named.get_mut(block as usize) {
            None => format!("block {index} is said to be in block {block}, of which there are only {data_blocks}"),
            Some(named) if *named => format!("block {index} is said to be in block {block}, where another one is"),
            Some(named) => {
                *named = true;
                let at = data.locate(block * BLOCK).expect("a block that is there").at;
                if shape.checksum && !holds(pool, at, word) {
                    found.damaged.push(Damaged { index, at });
                }
                continue;
            }
        };
        found.wrong.push(Wrong { index, at, what });
    }
    Ok(found)
}

/// Whether the block at `at` of the pool is what `word` says.
fn holds(pool: &Pool, at: u64, word: Word) -> bool {
    let mut content = [0; BLOCK as usize];
    pool.memory().load(at, &mut content);
    checksum_of(&content) == word.checksum()
}
