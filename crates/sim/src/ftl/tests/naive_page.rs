//! The page-level scheme written as plainly as can be: every page stores its own content, and every choice examines
//! everything.

use super::super::{FlashShape, VictimChoice};

#[derive(Clone, Default)]
struct NaiveBlock {
    /// The programmed pages, in order: the host's page, and the number of the write.
    pages: Vec<(u32, u64)>,
    erases: u32,
    /// The time when the block was filled, for FIFO, in events.
    filled: u64,
    /// The write at which the block last changed, for ages, and the event.
    changed: (u64, u64),
}

pub(super) struct NaivePage {
    shape: FlashShape,
    choice: VictimChoice,
    blocks: Vec<NaiveBlock>,
    active: Option<usize>,
    /// The newest write of each page that was not trimmed.
    newest: Vec<Option<u64>>,
    now: u64,
    events: u64,
    pub(super) copied_pages: u64,
    pub(super) erases: u64,
}

impl NaivePage {
    pub(super) fn new(shape: FlashShape, choice: VictimChoice) -> Self {
        Self {
            shape,
            choice,
            blocks: vec![NaiveBlock::default(); shape.blocks() as usize],
            active: None,
            newest: vec![None; shape.host_pages() as usize],
            now: 0,
            events: 0,
            copied_pages: 0,
            erases: 0,
        }
    }

    fn is_valid(&self, (page, version): (u32, u64)) -> bool {
        self.newest[page as usize] == Some(version)
    }

    fn invalid(&self, block: usize) -> usize {
        self.blocks[block].pages.iter().filter(|page| !self.is_valid(**page)).count()
    }

    fn is_full(&self, block: usize) -> bool {
        self.blocks[block].pages.len() == self.shape.block_pages as usize
    }

    fn free(&self) -> Vec<usize> {
        (0..self.blocks.len())
            .filter(|block| self.blocks[*block].pages.is_empty() && self.active != Some(*block))
            .collect()
    }

    fn program(&mut self, page: (u32, u64)) {
        if self.active.is_none_or(|active| self.is_full(active)) {
            let next = self.free().into_iter().min_by_key(|block| (self.blocks[*block].erases, *block));
            self.activate(Some(next.expect("some block is free")));
        }
        let active = self.active.expect("just made");
        self.blocks[active].pages.push(page);
    }

    fn activate(&mut self, next: Option<usize>) {
        if let Some(old) = std::mem::replace(&mut self.active, next) {
            self.events += 1;
            self.blocks[old].filled = self.events;
            self.blocks[old].changed = (self.now, self.events);
        }
    }

    fn victim(&self) -> usize {
        let candidates = (0..self.blocks.len()).filter(|block| self.is_full(*block) && self.active != Some(*block));
        match self.choice {
            VictimChoice::Greedy => candidates.rev().max_by_key(|block| self.invalid(*block)),
            VictimChoice::Fifo => candidates.min_by_key(|block| self.blocks[*block].filled),
            VictimChoice::CostBenefit => candidates.max_by(|one, other| {
                let key = |block: usize| (self.score(block), self.invalid(block));
                let ((score, invalid), (other_score, other_invalid)) = (key(*one), key(*other));
                let by_age = self.blocks[*other].changed.cmp(&self.blocks[*one].changed);
                score.total_cmp(&other_score).then(invalid.cmp(&other_invalid)).then(by_age)
            }),
        }
        .expect("some block is full")
    }

    fn score(&self, block: usize) -> f64 {
        let invalid = self.invalid(block) as f64;
        let valid = f64::from(self.shape.block_pages) - invalid;
        if valid == 0.0 {
            f64::INFINITY
        } else {
            (self.now - self.blocks[block].changed.0) as f64 * invalid / (2.0 * valid)
        }
    }

    fn collect(&mut self) {
        let victim = self.victim();
        for page in self.blocks[victim].pages.clone() {
            if self.is_valid(page) {
                self.program(page);
                self.copied_pages += 1;
            }
        }
        let erases = self.blocks[victim].erases + 1;
        self.blocks[victim] = NaiveBlock { erases, ..NaiveBlock::default() };
        self.erases += 1;
    }

    pub(super) fn write(&mut self, page: u32) {
        self.now += 1;
        if self.active.is_none_or(|active| self.is_full(active)) {
            self.activate(None);
            while self.free().len() <= 3 {
                self.collect();
            }
        }
        self.program((page, self.now));
        self.forget(page);
        self.newest[page as usize] = Some(self.now);
    }

    pub(super) fn trim(&mut self, page: u32) {
        self.forget(page);
    }

    fn forget(&mut self, page: u32) {
        let Some(version) = self.newest[page as usize].take() else { return };
        self.events += 1;
        let change = (self.now, self.events);
        let holder = self.blocks.iter_mut().find(|block| block.pages.contains(&(page, version)));
        holder.expect("it was programmed").changed = change;
    }

    pub(super) fn wear(&self) -> Vec<u32> {
        self.blocks.iter().map(|block| block.erases).collect()
    }
}
