//! New pages for writes: for parts of a file without pages, or in place of existing pages (FW1, FW3).

use ferrite_memory::{Scheme, Span};
use ferrite_pool::layout::PAGE;

use crate::error::AwayPages;
use crate::file::index::{self, IndexEntry};
use crate::file::{FileLayer, content, size, superpage};
use crate::format::inode::Inode;
use crate::format::layout::NODE_WORDS;
use crate::format::word::{IndexWord, NamedBy};
use crate::store::bits::pages_of;
use crate::store::change::FsChange;
use crate::store::copy_bytes;
use crate::store::locks::Stripe;
use crate::{DataMode, Error, Result};

/// Pages that are taken ahead of appends at most.
const AHEAD_PAGES_MAX: u64 = 256;

/// A page of a file that is written to a new page.
pub(crate) struct RenewedPage {
    /// Page of the file.
    page: u64,
    /// The place of its word.
    pub word_at: u64,
    pub old: IndexWord,
    /// The new page.
    pub new: u64,
}

impl RenewedPage {
    /// The one whose word lies there, by a page that is not known yet.
    pub fn at(word_at: u64, old: IndexWord) -> Self {
        Self { page: 0, word_at, old, new: 0 }
    }
}

/// Writes to new pages: for missing pages, or for all of them if `replaces` is true (FW3).
pub(crate) fn write_new(
    files: &FileLayer,
    stripe: &mut Stripe,
    inode: &mut Inode,
    at: u64,
    from: &[u8],
    replaces: bool,
) -> Result<()> {
    let (size, end) = (inode.size(), at + from.len() as u64);
    let pages = at / PAGE..end.div_ceil(PAGE);
    let mut renewed = to_renew(files, inode, pages.clone(), replaces)?;
    let fill = PageFill { at, from, size: size.max(end) };
    fetched_edges(files, &renewed, &fill)?;
    let appends = at == size && size > 0 && stripe.is_held(inode.ino);
    let ahead = if appends { words_ahead(files, inode, pages.end)? } else { Vec::new() };
    let mut change = FsChange::new(files);
    let needed = renewed.len() as u64;
    let runs = match change.allocate_data(needed + ahead.len() as u64) {
        Err(error) if error.is_no_space() && !ahead.is_empty() => change.allocate_data(needed)?,
        taken => taken?,
    };
    if !replaces {
        // Not before the rest has space (FW5).
        content::store_there(files, inode, at, from)?;
    }
    let mut taken = pages_of(&runs);
    renewed.iter_mut().zip(&mut taken).for_each(|(renewed, page)| renewed.new = page);
    for renewed in &renewed {
        fill_new(files, renewed, &fill)?;
    }
    // Behind the end that a crash leaves pages may be named before they are durable (FW4).
    let is_behind = renewed.iter().all(|renewed| renewed.page * PAGE >= inode.durable_size());
    let waits = files.waits() && files.data_mode() == DataMode::Posix && is_behind;
    if !waits {
        size::drain_data(files)?;
        inode.mark_size_durable();
    }
    if !ahead.is_empty() {
        files.ahead.note(inode.ino, files.now());
    }
    let place = |(word_at, new)| RenewedPage { new, ..RenewedPage::at(word_at, IndexWord::NONE) };
    renewed.extend(ahead.into_iter().zip(taken).map(place));
    let added = name_new(&mut change, inode, &renewed);
    inode.add_pages(added);
    let (now, durable_size) = (files.now(), inode.durable_size());
    inode.head.size = size.max(end);
    inode.touch(now);
    if waits {
        inode.hold_size(durable_size);
    }
    change.commit_head(inode)?;
    match waits {
        true => stripe.wait(inode),
        false => drop(stripe.waiting.remove(&inode.ino.0)),
    }
    superpage::note_growth(files, inode.ino, size..inode.size());
    Ok(())
}

/// The pages among `pages` that have none yet, or all of them; the index reaches them on return.
fn to_renew(files: &FileLayer, inode: &mut Inode, pages: std::ops::Range<u64>, all: bool) -> Result<Vec<RenewedPage>> {
    // What raises the index moves words, so it comes first.
    index::extend_index(files, inode, pages.end - 1)?;
    let (mut renewed, mut page) = (Vec::with_capacity(1), pages.start);
    while page < pages.end {
        match index::walk(files, inode, page)? {
            IndexEntry::Words { at, left } => {
                let count = left.min(pages.end - page);
                for index in 0..count {
                    let word_at = at + index * 8;
                    let old = IndexWord(files.memory().load_word(word_at));
                    if all || old == IndexWord::NONE || matches!(old.named(), NamedBy::Away(_)) {
                        renewed.push(RenewedPage { page: page + index, ..RenewedPage::at(word_at, old) });
                    }
                }
                page += count;
            }
            IndexEntry::Super { .. } if all => superpage::split_super(files, inode, page)?,
            IndexEntry::Super { left, .. } => page += left,
            IndexEntry::Nothing { .. } => index::extend_index(files, inode, page)?,
        }
    }
    Ok(renewed)
}

/// Words from page `page` on that name nothing, for pages to be taken ahead of appends: half as many as the file
/// has, within bounds; more where each transaction waits for a disk.
fn words_ahead(files: &FileLayer, inode: &Inode, page: u64) -> Result<Vec<u64>> {
    // Not by the size: most of the file may be a hole.
    let has = page.min(inode.head.pages);
    let wanted = if files.waits() { page.clamp(16, NODE_WORDS) } else { (has / 2).min(AHEAD_PAGES_MAX) };
    let IndexEntry::Words { at, left } = index::walk(files, inode, page)? else { return Ok(Vec::new()) };
    let places = (0..left.min(wanted)).map(|index| at + index * 8);
    Ok(places.take_while(|at| files.memory().load_word(*at) == 0).collect())
}

/// Returns an error unless the old bytes of all `renewed` pages that keep some are at hand. Nothing was changed before.
fn fetched_edges(files: &FileLayer, renewed: &[RenewedPage], fill: &PageFill<'_>) -> Result<()> {
    let mut wanted = Vec::new();
    for renewed in renewed {
        if let NamedBy::Away(page) = renewed.old.named()
            && fill.keeps_some_of(renewed.page)
            && files.fetched(page)?.is_none()
        {
            wanted.push(page);
        }
    }
    if wanted.is_empty() { Ok(()) } else { Err(Error::Away(AwayPages(wanted))) }
}

/// Stores the content of a new page.
fn fill_new(files: &FileLayer, renewed: &RenewedPage, fill: &PageFill<'_>) -> Result<()> {
    let place = files.place(renewed.new)?;
    let start = renewed.page * PAGE;
    let (from, to) = (fill.at.max(start), (fill.at + fill.from.len() as u64).min(start + PAGE));
    let end = (start + PAGE).min(fill.size);
    if let NamedBy::Page(old) = renewed.old.named()
        && (from > start || to < end)
    {
        let old = files.place(old)?;
        copy_bytes(files.memory(), old, place, from - start);
        copy_bytes(files.memory(), old + to - start, place + to - start, end.saturating_sub(to));
    } else if let NamedBy::Away(old) = renewed.old.named()
        && fill.keeps_some_of(renewed.page)
    {
        let old = files.fetched(old)?.ok_or_else(|| Error::Away(AwayPages(vec![old])))?;
        let (head, tail) = ((from - start) as usize, (to - start) as usize);
        files.memory().store(place, &old[..head], Scheme::Nt);
        files.memory().store(place + to - start, &old[tail..((end - start) as usize).max(tail)], Scheme::Nt);
    } else {
        files.memory().zero(Span::new(place, from - start), Scheme::Nt);
        files.memory().zero(Span::new(place + to - start, end.saturating_sub(to)), Scheme::Nt);
    }
    let bytes = &fill.from[(from - fill.at) as usize..(to - fill.at) as usize];
    files.memory().store(place + from - start, bytes, Scheme::Nt);
    Ok(())
}

/// Lets words name new pages; how many more pages the file has by that.
pub(crate) fn name_new(change: &mut FsChange<'_>, inode: &mut Inode, renewed: &[RenewedPage]) -> u64 {
    for together in renewed.chunk_by(|one, next| one.word_at + 8 == next.word_at) {
        let bytes: Vec<u8> = together.iter().flat_map(|one| IndexWord::page(one.new).0.to_le_bytes()).collect();
        change.write(together[0].word_at, &bytes);
    }
    let mut added = 0;
    for one in renewed {
        inode.note_word(one.word_at, IndexWord::page(one.new));
        added += 1 - change.free_word(one.old).min(1);
    }
    added
}

/// The bytes for new pages.
struct PageFill<'a> {
    at: u64,
    from: &'a [u8],
    /// The size that the file will have.
    size: u64,
}

impl PageFill<'_> {
    /// Returns true if bytes of `page` of the file, before its end, are not written.
    fn keeps_some_of(&self, page: u64) -> bool {
        let (start, end) = (page * PAGE, ((page + 1) * PAGE).min(self.size));
        self.at > start || self.at + (self.from.len() as u64) < end
    }
}
