//! Scrubbing: all that words name on SSDs is read and compared with what was written.
//!
//! No lock is held over a request to an SSD. A page counts as damaged if its word is the same behind the read (TI7).

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_pool::layout::PAGE;
use ferrite_pool::{Progress, ProgressWatch};
use serde::{Deserialize, Serialize};

use crate::file::FileLayer;
use crate::file::index::{self, IndexEntry};
use crate::format::segment::{SegmentEntry, SegmentNo, Slot};
use crate::format::word::{AwayPage, IndexWord, NamedBy};
use crate::store::slots::SlotStore;
use crate::store::tier_set::TierMember;
use crate::{Error, FileKind, Ino, Result};

/// Damaged pages that are listed at most.
const LISTED_PAGES_MAX: usize = 1000;

/// A page of a file whose bytes on an SSD are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DamagedPage {
    /// The inode of the file.
    pub ino: u64,
    /// A path of the file in its file system; `None` if it has no name.
    pub path: Option<String>,
    /// The page of the file.
    pub page: u64,
}

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierScrub {
    /// Segments that were read.
    pub segments: u64,
    /// Pages on SSDs that are right.
    pub pages: u64,
    /// Segments whose list of pages is damaged. Their pages can be read, but not moved.
    pub damaged_summaries: u64,
    /// Pages that are damaged.
    pub damaged_pages: u64,
    /// The damaged pages, a thousand at most.
    pub damaged: Vec<DamagedPage>,
}

/// A page on an SSD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagePlace {
    /// The address of the SSD.
    pub address: String,
    /// The offset of the page on it, in bytes.
    pub offset: u64,
}

/// Returns the page that the word of page `page` of `ino` names on an SSD.
fn away_page(files: &FileLayer, ino: Ino, page: u64) -> Result<Option<AwayPage>> {
    let _reading = files.locks.read(ino);
    let Ok(inode) = files.load(ino) else { return Ok(None) };
    if inode.kind() != Some(FileKind::File) {
        return Ok(None);
    }
    let IndexEntry::Words { at, .. } = index::walk(files, &inode, page)? else { return Ok(None) };
    match IndexWord(files.memory().load_word(at)).named() {
        NamedBy::Away(away) => Ok(Some(away)),
        _ => Ok(None),
    }
}

/// See [`crate::TierUpkeep::away_place`].
pub(crate) fn away_place(files: &FileLayer, ino: Ino, page: u64) -> Result<Option<PagePlace>> {
    let (Some(slots), Some(away)) = (&files.slots, away_page(files, ino, page)?) else { return Ok(None) };
    let (set, segment) = (slots.set(), away.slot.segment());
    let place = |member: &Arc<TierMember>| PagePlace {
        address: member.ssd.address.clone(),
        offset: member.offset(segment) + away.slot.block() * PAGE,
    };
    Ok(set.member_of(segment).map(place))
}

/// See [`crate::TierUpkeep::scrub`]. The paths are not there yet.
pub(crate) fn scrub(files: &FileLayer, progress: ProgressWatch<'_>) -> Result<TierScrub> {
    let (mut found, mut unlisted) = (TierScrub::default(), BTreeSet::new());
    let Some(slots) = &files.slots else { return Ok(found) };
    let set = slots.set();
    let numbers: Vec<u64> = set.members().iter().flat_map(|member| member.numbers()).collect();
    for (done, segment) in (0..).zip(numbers.iter().map(|number| SegmentNo(*number))) {
        if set.state(segment).named() == 0 {
            continue;
        }
        let total = numbers.len() as u64;
        if !progress(Progress { done, total, what: "reading segments".into() }) {
            return Err(ferrite_pool::Error::Cancelled("the scrub").into());
        }
        found.segments += 1;
        let sequence = slots.sequence_of(segment);
        match slots.read_segment(segment) {
            Ok((summary, bytes)) => {
                for (page, entry) in (0..).zip(&summary.entries) {
                    let slot = segment.slot(page);
                    scrub_page(
                        files,
                        slots,
                        entry,
                        slot,
                        &bytes[(slot.block() * PAGE) as usize..][..PAGE as usize],
                        &mut found,
                    )?;
                }
            }
            Err(_) if slots.sequence_of(segment) == sequence && set.state(segment).named() > 0 => {
                unlisted.insert(segment);
            }
            Err(_) => {}
        }
    }
    found.damaged_summaries = unlisted.len() as u64;
    if !unlisted.is_empty() {
        scrub_unlisted(files, slots, &unlisted, &mut found)?;
    }
    Ok(found)
}

/// Compares the bytes of `slot` with its word, which `entry` leads to.
fn scrub_page(
    files: &FileLayer,
    slots: &SlotStore,
    entry: &SegmentEntry,
    slot: Slot,
    bytes: &[u8],
    found: &mut TierScrub,
) -> Result<()> {
    if !slots.is_named(files.memory(), slot) {
        return Ok(());
    }
    match away_page(files, Ino(entry.ino), entry.page)?.filter(|away| away.slot == slot) {
        Some(away) if away.has(bytes) => found.pages += 1,
        Some(_) => note_damage(entry.ino, entry.page, found),
        None => {}
    }
    Ok(())
}

fn note_damage(ino: u64, page: u64, found: &mut TierScrub) {
    found.damaged_pages += 1;
    if found.damaged.len() < LISTED_PAGES_MAX {
        found.damaged.push(DamagedPage { ino, path: None, page });
    }
}

/// Reads the pages in `segments` one by one, as the words of all files name them.
fn scrub_unlisted(
    files: &FileLayer,
    slots: &SlotStore,
    segments: &BTreeSet<SegmentNo>,
    found: &mut TierScrub,
) -> Result<()> {
    let numbers: Vec<u64> = files.space.inodes_in_use(files.memory()).collect();
    for ino in numbers.into_iter().map(Ino) {
        for (page, away) in away_in(files, ino, segments)? {
            slots.fetch(&[away]);
            let read = slots.fetched(away);
            // Another word leads to other bytes by now.
            match read {
                _ if away_page(files, ino, page)? != Some(away) => {}
                Ok(_) => found.pages += 1,
                Err(Error::Ssd(_)) => note_damage(ino.0, page, found),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Returns the pages of `ino` that are in `segments`.
fn away_in(files: &FileLayer, ino: Ino, segments: &BTreeSet<SegmentNo>) -> Result<Vec<(u64, AwayPage)>> {
    let _reading = files.locks.read(ino);
    let mut all = Vec::new();
    let Ok(inode) = files.load_regular(ino) else { return Ok(all) };
    let (mut page, end) = (0, inode.size().div_ceil(PAGE));
    while page < end {
        page += match index::walk(files, &inode, page)? {
            IndexEntry::Words { at, left } => {
                let left = left.min(end - page);
                let words =
                    (0..left).map(|step| (page + step, IndexWord(files.memory().load_word(at + step * 8)).named()));
                all.extend(words.filter_map(|(page, named)| match named {
                    NamedBy::Away(away) if segments.contains(&away.slot.segment()) => Some((page, away)),
                    _ => None,
                }));
                left
            }
            IndexEntry::Super { left, .. } | IndexEntry::Nothing { left, .. } => left.min(end - page),
        };
    }
    Ok(all)
}
