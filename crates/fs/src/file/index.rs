//! The index of a file: which page holds which part of it.
//!
//! ```text
//!   inode      | w0 | w1 | .. | w7 |             height 0: each word names a page of 4 KiB
//!                |
//!   index page | w0 | w1 | ...... | w511 |       height h: each of the eight stands for 512^h pages of the file
//! ```
//!
//! A word of height 1 may name a superpage instead of 512 words.
//!
//! - FT1. Only transactions change words. Pages behind the end may be named, and their content is undefined: a writer
//!   that moves the end over them defines it first.
//! - FT2. An index page may be empty, which equals a missing one. An index may be higher than necessary.

use ferrite_memory::Span;
use ferrite_pool::layout::{CHUNK_PAGES, PAGE};

use crate::Result;
use crate::file::index_height;
use crate::format::inode::Inode;
use crate::format::layout::{FILE_BYTES_MAX, NODE_WORDS, ROOTS};
use crate::format::word::{AwayPage, IndexWord, NamedBy};
use crate::store::ChunkStore;
use crate::store::change::{FREED_PAGES_MAX, FsChange};

/// Pages of the file that each root word stands for at `height`.
fn root_pages(height: u8) -> u64 {
    1 << (9 * u32::from(height))
}

/// Pages that the index of a file reaches.
fn reach(height: u8) -> u64 {
    ROOTS * root_pages(height)
}

/// The result of a walk to a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IndexEntry {
    /// The word at `at` of the pool names the page; `left` words from it on are adjacent.
    Words { at: u64, left: u64 },
    /// This page of the superpage that the word at `at` names; so many from it on.
    Super { at: u64, page: u64, left: u64 },
    /// Nothing, for `left` pages. A new page needs the word at `at` to be set; 0 if the index does not reach that far.
    Nothing { at: u64, left: u64 },
}

/// Where a part of a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartPlace {
    /// At this offset in the pool.
    At(u64),
    /// Nowhere: its pages are missing.
    Missing,
    /// On an SSD; the part is one page.
    Away(AwayPage),
}

/// Pages of a file that lie together, or are all missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePart {
    /// First page of the file.
    pub first: u64,
    pub pages: u64,
    pub at: PartPlace,
}

impl PartPlace {
    /// Returns true if the page behind `pages` pages here lies at `next` and belongs to the same part.
    fn goes_on_at(self, pages: u64, next: Self) -> bool {
        match (self, next) {
            (Self::At(at), Self::At(next)) => at + pages * PAGE == next,
            (Self::Missing, Self::Missing) => true,
            _ => false,
        }
    }
}

#[inline]
fn ensure_height(store: &ChunkStore, inode: &Inode) -> Result<()> {
    if inode.head.height > 4 { Err(store.corrupt("the height of an index", inode.at)) } else { Ok(()) }
}

/// Walks to page `page` of a file.
#[inline]
pub(crate) fn walk(store: &ChunkStore, inode: &Inode, page: u64) -> Result<IndexEntry> {
    ensure_height(store, inode)?;
    let mut height = inode.head.height;
    if page >= reach(height) {
        return Ok(IndexEntry::Nothing { at: 0, left: u64::MAX - page });
    }
    let mut span = root_pages(height);
    let index = page / span;
    let (mut at, mut word) = (inode.root_at(index), inode.roots[index as usize]);
    let mut left = ROOTS - index;
    loop {
        if height == 0 {
            return Ok(IndexEntry::Words { at, left });
        }
        let within = page % span;
        match word.named() {
            NamedBy::Nothing => return Ok(IndexEntry::Nothing { at, left: span - within }),
            NamedBy::Super(first) if height == 1 && first.is_multiple_of(CHUNK_PAGES) => {
                return Ok(IndexEntry::Super { at, page: first + within, left: CHUNK_PAGES - within });
            }
            NamedBy::Node(node) => {
                (height, span) = (height - 1, span / NODE_WORDS);
                let index = within / span;
                (at, left) = (store.place(node)? + index * 8, NODE_WORDS - index);
                if height > 0 {
                    word = IndexWord(store.memory().load_word(at));
                }
            }
            _ => return Err(store.corrupt("a word of an index", at)),
        }
    }
}

/// Returns the word for the 2 MiB around page `page` of the file, and its place; `None` if the index has no such word.
pub(crate) fn block_word(store: &ChunkStore, inode: &Inode, page: u64) -> Result<Option<(u64, IndexWord)>> {
    let mut height = inode.head.height;
    if !(1..=4).contains(&height) || page >= reach(height) {
        return Ok(None);
    }
    let mut span = root_pages(height);
    let index = page / span;
    let (mut at, mut word) = (inode.root_at(index), inode.roots[index as usize]);
    while height > 1 {
        let NamedBy::Node(node) = word.named() else { return Ok(None) };
        let within = page % span;
        (height, span) = (height - 1, span / NODE_WORDS);
        at = store.place(node)? + within / span * 8;
        word = IndexWord(store.memory().load_word(at));
    }
    Ok(Some((at, word)))
}

/// Passes the parts of `pages` of a file, in order, to `each` until it returns `false`.
#[inline]
pub(crate) fn parts(
    store: &ChunkStore,
    inode: &Inode,
    pages: std::ops::Range<u64>,
    mut each: impl FnMut(FilePart) -> Result<bool>,
) -> Result<()> {
    let mut page = pages.start;
    while page < pages.end {
        let wanted = pages.end - page;
        match walk(store, inode, page)? {
            IndexEntry::Words { at, left } => {
                let count = left.min(wanted);
                if !parts_of_words(store, page, at, count, &mut each)? {
                    return Ok(());
                }
                page += count;
            }
            IndexEntry::Super { page: first, left, .. } => {
                let pages = left.min(wanted);
                if !each(FilePart { first: page, pages, at: PartPlace::At(store.place(first)?) })? {
                    return Ok(());
                }
                page += pages;
            }
            IndexEntry::Nothing { left, .. } => {
                let pages = left.min(wanted);
                if !each(FilePart { first: page, pages, at: PartPlace::Missing })? {
                    return Ok(());
                }
                page += pages;
            }
        }
    }
    Ok(())
}

#[inline]
fn parts_of_words(
    store: &ChunkStore,
    first: u64,
    at: u64,
    count: u64,
    each: &mut impl FnMut(FilePart) -> Result<bool>,
) -> Result<bool> {
    if count == 1 {
        let at = place_of_word(store, IndexWord(store.memory().load_word(at)), at)?;
        return each(FilePart { first, pages: 1, at });
    }
    let mut bytes = [0; PAGE as usize];
    let bytes = &mut bytes[..count as usize * 8];
    store.memory().load(at, bytes);
    let mut part: Option<FilePart> = None;
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        let word = IndexWord(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let place = place_of_word(store, word, at + index as u64 * 8)?;
        match &mut part {
            Some(part) if part.at.goes_on_at(part.pages, place) => part.pages += 1,
            _ => {
                if let Some(part) = part
                    && !each(part)?
                {
                    return Ok(false);
                }
                part = Some(FilePart { first: first + index as u64, pages: 1, at: place });
            }
        }
    }
    part.map_or(Ok(true), each)
}

fn place_of_word(store: &ChunkStore, word: IndexWord, at: u64) -> Result<PartPlace> {
    match word.named() {
        NamedBy::Nothing => Ok(PartPlace::Missing),
        NamedBy::Page(page) => store.place(page).map(PartPlace::At),
        NamedBy::Away(page) => Ok(PartPlace::Away(page)),
        _ => Err(store.corrupt("a word of an index", at)),
    }
}

/// Extends the index to page `page` of a file, so that its word can be set. Each step is a change of its own with an
/// equal meaning (FT2).
pub(crate) fn extend_index(store: &ChunkStore, inode: &mut Inode, page: u64) -> Result<()> {
    while let Some(at) = extend_index_to_block(store, inode, page)? {
        add_node(store, inode, at)?;
    }
    Ok(())
}

/// Extends the index to the word for the 2 MiB around the page. Returns the place of that word if it is empty.
pub(crate) fn extend_index_to_block(store: &ChunkStore, inode: &mut Inode, page: u64) -> Result<Option<u64>> {
    debug_assert!(page < FILE_BYTES_MAX / PAGE);
    loop {
        match walk(store, inode, page)? {
            IndexEntry::Words { .. } | IndexEntry::Super { .. } => return Ok(None),
            IndexEntry::Nothing { at: 0, .. } => index_height::raise(store, inode)?,
            IndexEntry::Nothing { at, .. } if block_word(store, inode, page)?.is_some() => return Ok(Some(at)),
            IndexEntry::Nothing { at, .. } => add_node(store, inode, at)?,
        }
    }
}

/// A page of words that name nothing, named by the word at `at`.
fn add_node(store: &ChunkStore, inode: &mut Inode, at: u64) -> Result<()> {
    let mut change = FsChange::new(store);
    let (node, _) = change.allocate_index_page()?;
    change.set_word(inode, at, IndexWord::node(node));
    inode.add_pages(1);
    change.commit_head(inode)
}

/// Adds to `change` that the pages of the file from page `from` on are free, up to a bound. Returns true if those were
/// all. The caller commits `change` with the head of `inode`.
pub(crate) fn trim(store: &ChunkStore, change: &mut FsChange<'_>, inode: &mut Inode, from: u64) -> Result<bool> {
    ensure_height(store, inode)?;
    let array = WordArray { at: inode.root_at(0), words: ROOTS, height: inode.head.height, first: 0 };
    let mut words = inode.roots.map(|word| word.0);
    let done = trim_array(store, change, &array, &mut words, from, inode);
    inode.roots = words.map(IndexWord);
    done
}

/// Frees what `array`, whose words are `words`, names from page `from` of the file on, from its end.
fn trim_array(
    store: &ChunkStore,
    change: &mut FsChange<'_>,
    array: &WordArray,
    words: &mut [u64],
    from: u64,
    inode: &mut Inode,
) -> Result<bool> {
    let span = root_pages(array.height);
    let mut gone = array.words..array.words;
    let mut is_done = true;
    for index in (0..array.words).rev() {
        let first = array.first + index * span;
        if first + span <= from {
            break;
        }
        let word = IndexWord(words[index as usize]);
        if word == IndexWord::NONE {
            continue;
        }
        is_done = change.freed_pages() < FREED_PAGES_MAX;
        let trimmed =
            if is_done { trim_word(store, change, array, word, first, from, inode)? } else { TrimmedWord::Kept };
        match trimmed {
            TrimmedWord::Gone => {
                words[index as usize] = 0;
                gone = index..if gone.is_empty() { index + 1 } else { gone.end };
            }
            TrimmedWord::Kept => {}
            TrimmedWord::Partly => is_done = false,
        }
        if !is_done {
            break;
        }
    }
    if !gone.is_empty() {
        change.zero(Span::new(array.at + gone.start * 8, (gone.end - gone.start) * 8));
    }
    Ok(is_done)
}

/// Frees what `word` of `array` names, which starts at page `first` of the file.
fn trim_word(
    store: &ChunkStore,
    change: &mut FsChange<'_>,
    array: &WordArray,
    word: IndexWord,
    first: u64,
    from: u64,
    inode: &mut Inode,
) -> Result<TrimmedWord> {
    match word.named() {
        NamedBy::Node(node) if array.height > 0 => {
            let below = WordArray { at: store.place(node)?, words: NODE_WORDS, height: array.height - 1, first };
            let mut words = store.load_words(below.at);
            if !trim_array(store, change, &below, &mut words, from, inode)? {
                return Ok(TrimmedWord::Partly);
            }
            if words.iter().any(|word| *word != 0) {
                return Ok(TrimmedWord::Kept);
            }
            change.free_page(node);
            inode.head.pages = inode.head.pages.saturating_sub(1);
            Ok(TrimmedWord::Gone)
        }
        NamedBy::Page(_) | NamedBy::Super(_) | NamedBy::Away(_) if first < from => Ok(TrimmedWord::Kept),
        NamedBy::Page(_) | NamedBy::Super(_) | NamedBy::Away(_) => {
            inode.head.pages = inode.head.pages.saturating_sub(change.free_word(word));
            Ok(TrimmedWord::Gone)
        }
        _ => Err(store.corrupt("a word of an index", array.at)),
    }
}

/// Zeros the bytes `span` of a file where it has pages, of which none is away; the caller drains.
pub(crate) fn zero_bytes(store: &ChunkStore, inode: &Inode, span: std::ops::Range<u64>) -> Result<()> {
    parts(store, inode, span.start / PAGE..span.end.div_ceil(PAGE), |part| {
        let PartPlace::At(at) = part.at else { return Ok(true) };
        let start = (part.first * PAGE).max(span.start);
        let end = ((part.first + part.pages) * PAGE).min(span.end);
        let zeros = Span::new(at + start - part.first * PAGE, end - start);
        store.memory().zero(zeros, ferrite_memory::Scheme::Nt);
        store.space.shared_state.note_stored(zeros.at, zeros.len as usize);
        Ok(true)
    })
}

/// The words of an index page, or of an inode.
struct WordArray {
    /// The offset in the pool.
    at: u64,
    words: u64,
    height: u8,
    /// First page of the file that they stand for.
    first: u64,
}

/// What became of a word.
enum TrimmedWord {
    /// The word must be cleared.
    Gone,
    Kept,
    /// There is more to do below it.
    Partly,
}
