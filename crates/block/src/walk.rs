//! The checks of a disk for `check`: its map names existing blocks, each once, and each block matches its checksum.

use ferrite_memory::{Scheme, Span};
use ferrite_pool::check::{TagFindings, TagOwner};
use ferrite_pool::{Pool, Result, Role, Stream, Tag, TagKind};

use crate::checksum::checksum_of;
use crate::map::{MapEntry, MapWord};
use crate::shape::{BLOCK, DiskShape};

/// The owner of the tags of disks.
pub struct DiskOwner;

/// The findings of one walk.
struct WalkResult {
    wrong: Vec<WrongWord>,
    damaged: Vec<DamagedBlock>,
    /// For each block of the data stream: the index of the disk's block that it holds plus one, or 0.
    named_by: Vec<u32>,
}

/// A map word that cannot be right.
struct WrongWord {
    /// Index of the block on the disk.
    index: u64,
    /// Offset of the word in the pool.
    at: u64,
    what: String,
    twin: Option<TwinBlock>,
}

/// The block that two words name, if no checksum shows which word is right.
struct TwinBlock {
    /// Index of the disk's block that keeps it.
    index: u64,
    /// Offset of the block in the pool.
    at: u64,
}

/// A block that does not match its checksum.
struct DamagedBlock {
    /// Index of the block on the disk.
    index: u64,
    /// Offset of the block in the pool.
    at: u64,
}

impl DamagedBlock {
    fn report(&self, findings: &mut TagFindings<'_>) {
        let first = self.index * BLOCK;
        let what = format!(
            "block {} of the disk (its bytes {first} to {}) is damaged: it does not match its checksum. Reading it \
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

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        match walk_disk(pool, tag) {
            Ok(found) => {
                found.wrong.into_iter().for_each(|wrong| findings.error(wrong.what, Some(wrong.at)));
                found.damaged.iter().for_each(|damaged| damaged.report(findings));
            }
            Err(error) => findings.error(error.to_string(), None),
        }
    }

    /// Clears words that cannot be right: their blocks read as zeros, and their content is lost. If two words name one
    /// block and no checksum shows which is right, the second word gets a copy of the block, so both read alike. A
    /// damaged block is left unchanged: for its reader an error is better than zeros.
    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> Result<()> {
        let found = match walk_disk(pool, tag) {
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
                    let outcome = "are equal now: the content of one of them is lost, and no checksum shows of which";
                    let (here, there) = (bytes(index), bytes(twin.index));
                    (MapWord::of(MapEntry::of(block), 0), format!("the disk's {here} and its {there} {outcome}"))
                }
                None => {
                    let outcome = "read as zeros now: their content is lost";
                    (MapWord::default(), format!("the disk's {} {outcome}", bytes(index)))
                }
            };
            pool.memory().store_word(at, word.0);
            pool.memory().persist(Span::new(at, 8))?;
            findings.repaired(what, Some(at), done);
        }
        found.damaged.iter().for_each(|damaged| damaged.report(findings));
        Ok(())
    }
}

/// Copies a block within the pool. The copy is durable on return.
fn copy_block(pool: &Pool, from: u64, to: u64) -> Result<()> {
    let mut content = [0; BLOCK as usize];
    pool.memory().load(from, &mut content);
    pool.memory().store(to, &content, Scheme::Nt);
    Ok(pool.memory().drain()?)
}

fn walk_disk(pool: &Pool, tag: &Tag) -> Result<WalkResult> {
    let shape = DiskShape::read(tag)?;
    let words = Stream::new(&tag.extents, Role::MAP);
    let data = Stream::new(&tag.extents, Role::DATA);
    let data_blocks = data.len() / BLOCK;
    let word_at = |index: u64| words.locate(index * 8).expect("the shape was checked").at;
    let is_whole = |index: u64, at: u64| matches_checksum(pool, at, MapWord(pool.memory().load_word(word_at(index))));
    let mut found = WalkResult { wrong: Vec::new(), damaged: Vec::new(), named_by: vec![0; data_blocks as usize] };
    for index in 0..shape.blocks {
        let Some(block) = MapWord(pool.memory().load_word(word_at(index))).entry().block() else { continue };
        let Some(named_by) = found.named_by.get_mut(block as usize) else {
            let what = format!("block {index} is mapped to block {block}, but there are only {data_blocks} blocks");
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
        // If the disk keeps checksums, the block belongs to the word whose checksum it matches.
        let is_ours = shape.checksum && !is_damaged && !is_whole(other, at);
        let (wrong, right) = if is_ours { (other, index) } else { (index, other) };
        *named_by = right as u32 + 1;
        found.damaged.retain(|damaged| damaged.index != wrong);
        let what = format!("block {wrong} is mapped to block {block}, which holds block {right}");
        let twin = (!shape.checksum).then_some(TwinBlock { index: right, at });
        found.wrong.push(WrongWord { index: wrong, at: word_at(wrong), what, twin });
    }
    Ok(found)
}

/// Returns true if the block at `at` of the pool has the checksum of `word`.
fn matches_checksum(pool: &Pool, at: u64, word: MapWord) -> bool {
    let mut content = [0; BLOCK as usize];
    pool.memory().load(at, &mut content);
    checksum_of(&content) == word.checksum()
}
