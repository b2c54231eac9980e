//! The frames of a guest as DRAM has them: a mirror of the words, free frames, copies by age, and the hand of CLOCK.

use std::collections::BTreeMap;
use std::mem;

use ferrite_memory::planted;

use crate::frame_space::FrameSpace;
use crate::frame_word::FrameContent;
use crate::page_frames::PageFrames;
use crate::{GuestError, RUN_PAGES, Result};

/// A frame.
#[derive(Clone, Debug)]
struct FrameEntry {
    content: FrameContent,
    /// The key among the copies.
    displaced: u64,
    /// The page is in a batch, and no store has reached it since.
    is_leaving: bool,
    /// A store reached the page since the hand passed.
    is_used: bool,
    /// A thread is about to fill the frame, which has no content yet.
    is_taken: bool,
}

impl FrameEntry {
    const FREE: Self =
        Self { content: FrameContent::Free, displaced: 0, is_leaving: false, is_used: false, is_taken: false };
}

/// A page and its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FramedPage {
    pub page: u64,
    pub frame: u32,
}

/// The frames of a guest.
#[derive(Debug)]
pub(crate) struct FrameTable {
    frames: Vec<FrameEntry>,
    pages: PageFrames,
    /// Frames whose words are durably zero.
    free: Vec<u32>,
    /// Frames with copies, the least recently displaced first.
    copies: BTreeMap<u64, u32>,
    displacements: u64,
    truths: usize,
    hand: usize,
    /// Frames from here on get no page any longer: they leave the guest.
    end: u32,
}

impl FrameTable {
    /// Returns the frames as the words in `space` say.
    ///
    /// # Errors
    /// [`GuestError::Damaged`] if a word is damaged, or two name one page (VR6).
    pub fn recover(space: &FrameSpace) -> Result<Self> {
        let count = space.layout.frames as u32;
        let mut table = Self {
            frames: vec![FrameEntry::FREE; count as usize],
            pages: PageFrames::default(),
            free: Vec::new(),
            copies: BTreeMap::new(),
            displacements: 0,
            truths: 0,
            hand: 0,
            end: count,
        };
        // The last one is taken first.
        for (frame, content) in (0..count).zip(space.contents()).rev() {
            let damaged = |what: &str| {
                GuestError::Damaged(format!(
                    "the word of frame {frame} at byte {} {what}: run `ferrite pool check`",
                    space.word_place(frame)
                ))
            };
            let pages = table.pages.len();
            match content.ok_or_else(|| damaged("is damaged"))? {
                FrameContent::Free => table.free.push(frame),
                content => table.set(frame, content),
            }
            if content.is_some_and(|content| content.page().is_some()) && table.pages.len() == pages {
                return Err(damaged("names a page that another frame has"));
            }
        }
        Ok(table)
    }

    /// Returns the frame that has `page`.
    pub fn frame_of(&self, page: u64) -> Option<u32> {
        self.pages.get(page)
    }

    /// Returns the content of `frame`.
    pub fn content(&self, frame: u32) -> FrameContent {
        self.frames[frame as usize].content
    }

    /// Changes the content of `frame`, as its word says by then. A free one is used again from then on.
    pub fn set(&mut self, frame: u32, content: FrameContent) {
        let entry = &mut self.frames[frame as usize];
        let before = mem::replace(&mut entry.content, content);
        (entry.is_leaving, entry.is_taken) = (false, false);
        match before {
            FrameContent::Free => {}
            FrameContent::Truth(_) => self.truths -= 1,
            FrameContent::Copy(_) => {
                self.copies.remove(&entry.displaced);
            }
        }
        if let Some(page) = before.page() {
            self.pages.remove(page);
        }
        match content {
            FrameContent::Free => self.put_back(frame),
            FrameContent::Truth(_) => self.truths += 1,
            FrameContent::Copy(_) => {
                self.displacements += 1;
                entry.displaced = self.displacements;
                self.copies.insert(self.displacements, frame);
            }
        }
        if let Some(page) = content.page() {
            self.pages.insert(page, frame);
        }
    }

    /// Takes a free frame, which the caller fills and sets, or puts back.
    pub fn take_free(&mut self) -> Option<u32> {
        let frame = self.free.pop()?;
        self.frames[frame as usize].is_taken = true;
        Some(frame)
    }

    /// Puts back a frame whose word is zero.
    pub fn put_back(&mut self, frame: u32) {
        self.frames[frame as usize].is_taken = false;
        if frame < self.end {
            self.free.push(frame);
        }
    }

    /// Adds frames whose words are zero, so that there are `count`, and uses retired ones again.
    pub fn grow(&mut self, count: u32) {
        self.frames.resize(count as usize, FrameEntry::FREE);
        self.retire(count);
    }

    /// Gives no pages to the frames from `first` on any longer, and uses all before it.
    pub fn retire(&mut self, first: u32) {
        let end = mem::replace(&mut self.end, first);
        self.free.retain(|frame| *frame < first);
        let is_free = |frame: &u32| {
            let entry = &self.frames[*frame as usize];
            entry.content == FrameContent::Free && !entry.is_taken
        };
        self.free.extend((end..first).rev().filter(is_free));
    }

    /// Returns the retired frames with copies.
    pub fn retired_copies(&self) -> Vec<u32> {
        let is_copy = |frame: &u32| matches!(self.content(*frame), FrameContent::Copy(_));
        (self.end..self.len() as u32).filter(is_copy).collect()
    }

    /// Returns the truths in retired frames, by page.
    pub fn retired_truths(&self) -> Vec<FramedPage> {
        let mut truths = self.all_truths();
        truths.retain(|one| one.frame >= self.end);
        truths
    }

    /// Returns true if no thread uses a retired frame, and none has a page.
    pub fn is_retired(&self) -> bool {
        let is_idle = |entry: &FrameEntry| {
            let is_filled = entry.is_taken && !planted!("guest: a chunk leaves while a frame of it is filled");
            entry.content == FrameContent::Free && !is_filled
        };
        self.frames[self.end as usize..].iter().all(is_idle)
    }

    /// Removes the retired frames.
    pub fn truncate(&mut self) {
        self.frames.truncate(self.end as usize);
        self.hand %= self.frames.len();
    }

    /// Returns the number of frames that may get pages.
    pub fn usable(&self) -> usize {
        self.end as usize
    }

    /// Notes that the page in `frame` is stored to: it does not leave.
    pub fn note_store(&mut self, frame: u32) {
        let entry = &mut self.frames[frame as usize];
        (entry.is_leaving, entry.is_used) = (false, true);
    }

    /// Returns true if no store has reached the page of `one` since it was chosen.
    pub fn is_leaving(&self, one: FramedPage) -> bool {
        let entry = &self.frames[one.frame as usize];
        entry.is_leaving && entry.content == FrameContent::Truth(one.page)
    }

    /// Keeps the page of `one` where it is.
    pub fn stay(&mut self, one: FramedPage) {
        self.frames[one.frame as usize].is_leaving = false;
    }

    /// Returns the number of all frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of free frames.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns the number of copies.
    pub fn copies(&self) -> usize {
        self.copies.len()
    }

    /// Returns the number of truths.
    pub fn truths(&self) -> usize {
        self.truths
    }

    /// Returns the oldest copies, `count` at most.
    pub fn oldest_copies(&self, count: usize) -> Vec<u32> {
        self.copies.values().take(count).copied().collect()
    }

    /// Returns all truths, by page.
    pub fn all_truths(&self) -> Vec<FramedPage> {
        let truth = |(frame, entry): (usize, &FrameEntry)| match entry.content {
            FrameContent::Truth(page) => Some(FramedPage { page, frame: frame as u32 }),
            _ => None,
        };
        let mut all: Vec<FramedPage> = self.frames.iter().enumerate().filter_map(truth).collect();
        all.sort_unstable();
        all
    }

    /// Marks the pages that are truths still as leaving, and returns these pages.
    pub fn leave(&mut self, pages: &[FramedPage]) -> Vec<FramedPage> {
        let is_truth = |one: &&FramedPage| self.frames[one.frame as usize].content == FrameContent::Truth(one.page);
        let leaving: Vec<FramedPage> = pages.iter().filter(is_truth).copied().collect();
        leaving.iter().for_each(|one| self.frames[one.frame as usize].is_leaving = true);
        leaving
    }

    /// Chooses truths to leave, about `count`: the hand passes those that were used since it passed before, and takes
    /// the neighbours of the others along. Returns them by page, marked.
    pub fn choose(&mut self, count: usize) -> Vec<FramedPage> {
        let mut chosen = Vec::new();
        for _ in 0..2 * self.frames.len() {
            if chosen.len() >= count {
                break;
            }
            let frame = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let entry = &mut self.frames[frame];
            if let FrameContent::Truth(page) = entry.content
                && !entry.is_leaving
                && !mem::take(&mut entry.is_used)
            {
                self.choose_run(page, &mut chosen);
            }
        }
        chosen.sort_unstable();
        chosen
    }

    /// Chooses `page` and its neighbours, up to a run.
    fn choose_run(&mut self, page: u64, chosen: &mut Vec<FramedPage>) {
        let idle = |page: u64| {
            let frame = self.frame_of(page)?;
            let entry = &self.frames[frame as usize];
            let is_idle = entry.content == FrameContent::Truth(page) && !entry.is_leaving && !entry.is_used;
            is_idle.then_some(FramedPage { page, frame })
        };
        let before = (page.saturating_sub(RUN_PAGES / 2)..page).rev().map_while(idle);
        let behind = (page..page + RUN_PAGES / 2).map_while(idle);
        let run: Vec<FramedPage> = before.chain(behind).collect();
        run.iter().for_each(|one| self.frames[one.frame as usize].is_leaving = true);
        chosen.extend(run);
    }
}

#[cfg(test)]
mod tests;
