//! What `check` asks of a disk: that its map names blocks that are there, each once, and that each holds what its
//! checksum says.

use ferrite_memory::{Scheme, Span};
use ferrite_pool::check::{Findings, TagOwner};
use ferrite_pool::{Pool, Result, Role, Stream, Tag, TagKind};

use crate::checksum::checksum_of;
use crate::map::{MapEntry, MapWord};
use crate::shape::{BLOCK, DiskShape};

/// The owner of disks, for `check`.
pub struct DiskOwner;

/// What a walk found.
struct WalkResult {
    wrong: Vec<WrongWord>,
    damaged: Vec<DamagedBlock>,
    /// For each block of the data stream the block of the disk that it is, plus one, or 0.
    named_by: Vec<u32>,
}

/// A map word that cannot be right.
struct WrongWord {
    /// Block of the disk.
    index: u64,
    /// Where the word lies in the pool.
    at: u64,
    what: String,
    twin: Option<TwinBlock>,
}

/// The block that a wrong word names, as another one does, where nothing tells which of the two is right.
struct TwinBlock {
    /// Block of the disk that keeps it.
    index: u64,
    /// Where it lies in the pool.
    at: u64,
}

/// A block that is not what its checksum says.
struct DamagedBlock {
    /// Block of the disk.
    index: u64,
    /// Where it lies in the pool.
    at: u64,
}

impl DamagedBlock {
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

    /// A word that cannot be right is cleared: its block reads as zeros, and what it held is lost. Where it may be right,
    /// and another one wrong that names the same block, it gets a copy of that: so both read what one of them held. A
    /// damaged block is left as it is: an error tells its reader more than zeros would.
    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut Findings<'_>) -> Result<()> {
        let found = match look(pool, tag) {
            Ok(found) => found,
            Err(error) => {
                findings.error(error.to_string(), None);
                return Ok(());
            }
        };
        let data = Stream::new(&tag.extents, Role::DATA);
        let mut free = (0_u32..).zip(&found.named_by).filter(|(_, by)| **by == 0).map(|(block, _)| block);
        for WrongWord { index, at, what, twin } in found.wrong {
            let bytes = |index: u64| format!("bytes {} to {}", index * BLOCK, (index + 1) * BLOCK);
            let copied = twin.and_then(|twin| Some((twin, free.next()?)));
            let (word, done) = match copied {
                Some((twin, block)) => {
                    let place = data.locate(u64::from(block) * BLOCK).expect("a block that is there").at;
                    copy_block(pool, twin.at, place)?;
                    let told = "read the same now; what one of the two held is lost, and nothing tells which";
                    let (here, there) = (bytes(index), bytes(twin.index));
                    (MapWord::of(MapEntry::of(block), 0), format!("the disk's {here} and its {there} {told}"))
                }
                None => {
                    let told = "read as zeros now; what they held is lost";
                    (MapWord::default(), format!("the disk's {} {told}", bytes(index)))
                }
            };
            pool.memory().store_word(at, word.0);
            pool.memory().persist(Span::new(at, 8))?;
            findings.repaired(what, Some(at), done);
        }
        found.damaged.iter().for_each(|damaged| damaged.tell(findings));
        Ok(())
    }
}

/// Copies a block within the pool; durable on return.
fn copy_block(pool: &Pool, from: u64, to: u64) -> Result<()> {
    let mut content = [0; BLOCK as usize];
    pool.memory().load(from, &mut content);
    pool.memory().store(to, &content, Scheme::Nt);
    Ok(pool.memory().settle()?)
}

fn look(pool: &Pool, tag: &Tag) -> Result<WalkResult> {
    let shape = DiskShape::read(tag)?;
    let words = Stream::new(&tag.extents, Role::MAP);
    let data = Stream::new(&tag.extents, Role::DATA);
    let data_blocks = data.len() / BLOCK;
    let word_at = |index: u64| words.locate(index * 8).expect("the shape was checked").at;
    let is_whole = |index: u64, at: u64| holds(pool, at, MapWord(pool.memory().load_word(word_at(index))));
    let mut found = WalkResult { wrong: Vec::new(), damaged: Vec::new(), named_by: vec![0; data_blocks as usize] };
    for index in 0..shape.blocks {
        let Some(block) = MapWord(pool.memory().load_word(word_at(index))).entry().block() else { continue };
        let Some(named_by) = found.named_by.get_mut(block as usize) else {
            let what = format!("block {index} is said to be in block {block}, of which there are only {data_blocks}");
            found.wrong.push(WrongWord { index, at: word_at(index), what, twin: None });
            continue;
        };
        let at = data.locate(block * BLOCK).expect("a block that is there").at;
        let is_damaged = shape.checksum && !is_whole(index, at);
        let Some(other) = u64::from(*named_by).checked_sub(1) else {
            *named_by = index as u32 + 1;
            found.damaged.extend(is_damaged.then_some(DamagedBlock { index, at }));
            continue;
        };
        // With checksums it belongs to the one whose content it is.
        let is_ours = shape.checksum && !is_damaged && !is_whole(other, at);
        let (wrong, right) = if is_ours { (other, index) } else { (index, other) };
        *named_by = right as u32 + 1;
        found.damaged.retain(|damaged| damaged.index != wrong);
        let what = format!("block {wrong} is said to be in block {block}, where block {right} is");
        let twin = (!shape.checksum).then_some(TwinBlock { index: right, at });
        found.wrong.push(WrongWord { index: wrong, at: word_at(wrong), what, twin });
    }
    Ok(found)
}

/// Whether the block at `at` of the pool is what `word` says.
fn holds(pool: &Pool, at: u64, word: MapWord) -> bool {
    let mut content = [0; BLOCK as usize];
    pool.memory().load(at, &mut content);
    checksum_of(&content) == word.checksum()
}
