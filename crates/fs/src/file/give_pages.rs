//! Pages for ranges of a file that have none.

use std::ops::Range;

use ferrite_memory::{Scheme, Span};
use ferrite_pool::layout::PAGE;

use crate::Result;
use crate::file::FileLayer;
use crate::file::index::{self, IndexEntry};
use crate::format::inode::Inode;
use crate::format::word::IndexWord;
use crate::store::bits::{PageRun, pages_of};
use crate::store::change::FsChange;

/// Allocates a page of zeros for each page of `range` that is missing.
pub(crate) fn give_pages(files: &FileLayer, inode: &mut Inode, range: Range<u64>) -> Result<()> {
    let (mut page, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
    while page < end {
        match index::walk(files, inode, page)? {
            IndexEntry::Words { at, left } => {
                let count = left.min(end - page);
                give_words(files, inode, at, count, |runs| zero_runs(files, runs))?;
                page += count;
            }
            IndexEntry::Super { left, .. } => page += left,
            IndexEntry::Nothing { .. } => index::extend_index(files, inode, page)?,
        }
    }
    Ok(())
}

fn zero_runs(files: &FileLayer, runs: &[PageRun]) -> Result<()> {
    for run in runs {
        files.memory().zero(Span::new(files.place(run.page)?, run.pages * PAGE), Scheme::Nt);
    }
    files.drain()
}

/// Allocates pages for the empty ones of the `count` words from `at` on. `prepare` fills the pages before words name
/// them.
pub(crate) fn give_words(
    files: &FileLayer,
    inode: &mut Inode,
    at: u64,
    count: u64,
    prepare: impl FnOnce(&[PageRun]) -> Result<()>,
) -> Result<()> {
    let places = (0..count).map(|index| at + index * 8);
    let empty: Vec<u64> = places.filter(|at| files.memory().load_word(*at) == 0).collect();
    if empty.is_empty() {
        return Ok(());
    }
    let mut change = FsChange::new(files);
    let runs = change.allocate_data(empty.len() as u64)?;
    prepare(&runs)?;
    let named: Vec<(u64, IndexWord)> = empty.into_iter().zip(pages_of(&runs).map(IndexWord::page)).collect();
    for together in named.chunk_by(|one, next| one.0 + 8 == next.0) {
        let bytes: Vec<u8> = together.iter().flat_map(|(_, word)| word.0.to_le_bytes()).collect();
        change.write(together[0].0, &bytes);
    }
    named.iter().for_each(|(at, word)| inode.note_word(*at, *word));
    inode.add_pages(named.len() as u64);
    change.commit_head(inode)
}
