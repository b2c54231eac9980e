//! The frames of a guest as DRAM has them: a mirror of the words, free frames, copies by age, and the hand of CLOCK.

use std::collections::{BTreeMap, HashMap};
use std::mem;

use crate::frame_space::FrameSpace;
use crate::frame_word::FrameContent;
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
    pages: HashMap<u64, u32>,
    /// Frames whose words are durably zero.
    free: Vec<u32>,
    /// Frames with copies, the least recently displaced first.
    copies: BTreeMap<u64, u32>,
    displacements: u64,
    truths: usize,
    hand: usize,
}

impl FrameTable {
    /// Returns the frames as the words in `space` say.
    ///
    /// # Errors
    /// [`GuestError::Damaged`] if a word is damaged, or two name one page (VR6).
    pub fn recover(space: &FrameSpace) -> Result<Self> {
        let count = space.layout.frames as u32;
        let free = FrameEntry { content: FrameContent::Free, displaced: 0, is_leaving: false, is_used: false };
        let mut table = Self {
            frames: vec![free; count as usize],
            pages: HashMap::new(),
            free: Vec::new(),
            copies: BTreeMap::new(),
            displacements: 0,
            truths: 0,
            hand: 0,
        };
        // The last one is taken first.
        for frame in (0..count).rev() {
            let damaged = |what: &str| {
                GuestError::Damaged(format!(
                    "the word of frame {frame} at byte {} {what}: run `ferrite pool check`",
                    space.word_place(frame)
                ))
            };
            let content = space.content(frame).ok_or_else(|| damaged("is damaged"))?;
            if content.page().is_some_and(|page| table.pages.contains_key(&page)) {
                return Err(damaged("names a page that another frame has"));
            }
            match content {
                FrameContent::Free => table.free.push(frame),
                content => table.set(frame, content),
            }
        }
        Ok(table)
    }

    /// Returns the frame that has `page`.
    pub fn frame_of(&self, page: u64) -> Option<u32> {
        self.pages.get(&page).copied()
    }

    /// Returns the content of `frame`.
    pub fn content(&self, frame: u32) -> FrameContent {
        self.frames[frame as usize].content
    }

    /// Changes the content of `frame`, as its word says by then. A free one is used again from then on.
    pub fn set(&mut self, frame: u32, content: FrameContent) {
        let entry = &mut self.frames[frame as usize];
        let before = mem::replace(&mut entry.content, content);
        entry.is_leaving = false;
        match before {
            FrameContent::Free => {}
            FrameContent::Truth(_) => self.truths -= 1,
            FrameContent::Copy(_) => {
                self.copies.remove(&entry.displaced);
            }
        }
        if let Some(page) = before.page() {
            self.pages.remove(&page);
        }
        match content {
            FrameContent::Free => self.free.push(frame),
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
        self.free.pop()
    }

    /// Puts back a frame of [`FrameTable::take_free`] whose word is still zero.
    pub fn put_back(&mut self, frame: u32) {
        self.free.push(frame);
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
