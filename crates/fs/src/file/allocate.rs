//! Space of a file that is given or taken without writing, and where it is.

use std::ops::Range;

use ferrite_memory::{Scheme, Span};
use ferrite_pool::layout::{CHUNK_PAGES, PAGE};

use crate::file::index::Found;
use crate::file::read::apply_waiting;
use crate::format::inode::{Inode, KEEPS_PAGES};
use crate::format::layout::FILE_BYTES_MAX;
use crate::format::word::Word;
use crate::fs::FileSystem;
use crate::store::bits::{Run, pages_of};
use crate::store::change::Change;
use crate::{Allocate, Error, Ino, Result, Seek};

impl FileSystem {
    /// Gives or takes space of a range of a regular file. A crash may leave a part of it done.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty range, [`Error::FileTooBig`] for one that ends where no file can;
    /// [`Error::IsDirectory`] or [`Error::Invalid`] for what is no regular file. Else as [`FileSystem`] says.
    pub fn allocate(&self, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
        self.refuse_if_read_only()?;
        if range.start >= range.end {
            return Err(Error::Invalid("the range is empty"));
        }
        if range.end > FILE_BYTES_MAX {
            return Err(Error::FileTooBig);
        }
        if how != Allocate::Punch && self.exceeds_pool(ino, &range)? {
            return Err(Error::NoSpace);
        }
        self.with_space(|| self.allocate_anew(ino, range.clone(), how))
    }

    /// Whether `range` needs more pages than there are in the pool, beside those that the file has. All that there are would
    /// be given to it before it fails.
    fn exceeds_pool(&self, ino: Ino, range: &Range<u64>) -> Result<bool> {
        let _stripe = self.locks.read(ino);
        let has = self.load_regular(ino)?.head.pages;
        let wants = range.end.div_ceil(PAGE) - range.start / PAGE;
        Ok(wants.saturating_sub(has) > self.memory().size() / PAGE)
    }

    fn allocate_anew(&self, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
        let _pass = self.gate.pass();
        let mut stripe = self.locks.write(ino);
        let mut inode = self.load_regular(ino)?;
        apply_waiting(&stripe, &mut inode);
        self.calm(&mut stripe, &mut inode)?;
        if !stripe.waiting.is_empty() {
            self.publish_size(&mut stripe, &mut inode)?;
        }
        while inode.is_cut() {
            self.trim_orphan(&mut inode)?;
        }
        let size = inode.size();
        match how {
            Allocate::Punch => self.punch(&mut inode, range)?,
            Allocate::Grow | Allocate::KeepSize | Allocate::Zero | Allocate::ZeroKeepSize => {
                // Before anything of the content changes: where there is no space it stays as it is.
                if let Err(why) = self.give_pages(&mut inode, range.clone()) {
                    self.take_back_behind(ino, size)?;
                    return Err(why);
                }
                let grows = matches!(how, Allocate::Grow | Allocate::Zero);
                let grown = if grows { size.max(range.end) } else { size };
                let is_zeroed = matches!(how, Allocate::Zero | Allocate::ZeroKeepSize);
                let (from, to) = (if is_zeroed { range.start.min(size) } else { size }, range.end.min(grown));
                if from < to {
                    self.zero_bytes(&inode, from..to)?;
                    self.settle()?;
                }
                inode.head.size = grown;
            }
        }
        if matches!(how, Allocate::KeepSize | Allocate::ZeroKeepSize) {
            inode.head.flags |= KEEPS_PAGES;
        }
        inode.touch(self.now());
        let change = Change::new(self);
        self.commit_head(change, &mut inode)?;
        self.note_growth(ino, size..inode.size());
        Ok(())
    }

    /// Takes the pages behind byte `end`, where the file ends, that were given before there were no more; not from a file
    /// that has kept some there.
    fn take_back_behind(&self, ino: Ino, end: u64) -> Result<()> {
        let mut inode = self.load_regular(ino)?;
        if inode.head.flags & KEEPS_PAGES == 0 { self.free_behind(&mut inode, end) } else { Ok(()) }
    }

    /// Gives every page of `range` that has none one of zeros.
    pub(crate) fn give_pages(&self, inode: &mut Inode, range: Range<u64>) -> Result<()> {
        let (mut page, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
        while page < end {
            match self.walk(inode, page)? {
                Found::Words { at, left } => {
                    let count = left.min(end - page);
                    self.give_words(inode, at, count, |runs| self.zero_runs(runs))?;
                    page += count;
                }
                Found::Super { left, .. } => page += left,
                Found::Nothing { .. } => self.extend_index(inode, page)?,
            }
        }
        Ok(())
    }

    fn zero_runs(&self, runs: &[Run]) -> Result<()> {
        for run in runs {
            self.memory().zero(Span::new(self.place(run.page)?, run.pages * PAGE), Scheme::Nt);
        }
        self.settle()
    }

    /// Lets those of `count` words from `at` on that name nothing name new pages, of which `prepare` makes what they are to
    /// hold.
    pub(crate) fn give_words(
        &self,
        inode: &mut Inode,
        at: u64,
        count: u64,
        prepare: impl FnOnce(&[Run]) -> Result<()>,
    ) -> Result<()> {
        let places = (0..count).map(|index| at + index * 8);
        let empty: Vec<u64> = places.filter(|at| self.memory().load_word(*at) == 0).collect();
        if empty.is_empty() {
            return Ok(());
        }
        let mut change = Change::new(self);
        let runs = change.take_data(empty.len() as u64)?;
        prepare(&runs)?;
        let named: Vec<(u64, Word)> = empty.into_iter().zip(pages_of(&runs).map(Word::page)).collect();
        for together in named.chunk_by(|one, next| one.0 + 8 == next.0) {
            let bytes: Vec<u8> = together.iter().flat_map(|(_, word)| word.0.to_le_bytes()).collect();
            change.write(together[0].0, &bytes);
        }
        named.iter().for_each(|(at, word)| self.note_word(inode, *at, *word));
        inode.add_pages(named.len() as u64);
        self.commit_head(change, inode)
    }

    /// Makes a hole of `range`; parts of pages at its ends become zeros.
    fn punch(&self, inode: &mut Inode, range: Range<u64>) -> Result<()> {
        let (first, end) = (range.start.div_ceil(PAGE), range.end / PAGE);
        if first >= end {
            self.zero_bytes(inode, range)?;
            return self.settle();
        }
        self.zero_bytes(inode, range.start..first * PAGE)?;
        self.zero_bytes(inode, end * PAGE..range.end)?;
        self.settle()?;
        let mut page = first;
        while page < end {
            match self.walk(inode, page)? {
                Found::Words { at, left } => {
                    let count = left.min(end - page);
                    self.take_words(inode, at, count)?;
                    page += count;
                }
                Found::Super { left, at, .. } if left == CHUNK_PAGES && end - page >= left => {
                    self.take_words(inode, at, 1)?;
                    page += left;
                }
                Found::Super { left, .. } => match self.split_super(inode, page) {
                    // A full file system has no pages for the rest: what is punched reads as zeros.
                    Err(Error::NoSpace) => {
                        let stop = (page + left).min(end);
                        self.zero_bytes(inode, page * PAGE..stop * PAGE)?;
                        self.settle()?;
                        page = stop;
                    }
                    split => split?,
                },
                Found::Nothing { left, .. } => page += left.min(end - page),
            }
        }
        Ok(())
    }

    /// Frees what `count` words from `at` on name.
    fn take_words(&self, inode: &mut Inode, at: u64, count: u64) -> Result<()> {
        let mut change = Change::new(self);
        let before = inode.head.pages;
        for word_at in (0..count).map(|index| at + index * 8) {
            let word = Word(self.memory().load_word(word_at));
            inode.head.pages = inode.head.pages.saturating_sub(change.free_word(word));
            self.note_word(inode, word_at, Word::NONE);
        }
        if inode.head.pages == before {
            return Ok(());
        }
        change.zero(Span::new(at, count * 8));
        self.commit_head(change, inode)
    }

    /// The first byte from `at` on of the kind looked for.
    ///
    /// # Errors
    /// [`Error::PastEnd`] where `at` is not before the end, or no data comes any more; [`Error::IsDirectory`] or
    /// [`Error::Invalid`] for what is no regular file.
    pub fn seek(&self, ino: Ino, at: u64, what: Seek) -> Result<u64> {
        let stripe = self.locks.read(ino);
        let mut inode = self.load_regular(ino)?;
        apply_waiting(&stripe, &mut inode);
        let size = inode.size();
        if at >= size {
            return Err(Error::PastEnd);
        }
        let mut found = None;
        self.parts(&inode, at / PAGE..size.div_ceil(PAGE), |part| {
            if part.at.is_some() == (what == Seek::Data) {
                found = Some((part.first * PAGE).max(at));
            }
            Ok(found.is_none())
        })?;
        match (found.filter(|found| *found < size), what) {
            (Some(found), _) => Ok(found),
            (None, Seek::Hole) => Ok(size),
            (None, Seek::Data) => Err(Error::PastEnd),
        }
    }
}
