//! FAST (Lee et al. 2007): a map for each block, and log blocks for pages whose slot is used.
//!
//! ```text
//! data block   sequential log block       random log blocks, the oldest first
//! |0 1 2 3 4|  |0 1 2 . .| of one block   |7 12 3 40|9 1 22 8|5 . . .|   of any
//! ```
//!
//! - FA1. A page whose slot in its data block is free is written there.
//! - FA2. Otherwise the first page of a block begins a new sequential log; the old one is merged first: by switch if it
//!   is full, otherwise partially.
//! - FA3. Otherwise, if the block owns the sequential log, the next page is appended. An earlier page ends in a full
//!   merge of data and log block, a later page in a partial merge; both merges include the new page.
//! - FA4. Otherwise the page is appended to the random log. If the log is full, its oldest block is reclaimed first:
//!   every block with a valid page in it is merged, partially if it owns the sequential log.
//! - FA5. After a merge of a block all its pages are in its data block: the log holds no valid page of it.

use std::collections::VecDeque;

use super::{Flash, FlashBlock, FlashPage, FlashShape, HostPage, Translation};
use crate::prefetch::{huge_table, prefetch};
use crate::{Error, Result};

/// The slot in the data block is free, so the page has no content.
const FREE: u32 = u32::MAX;
/// The page has no content and its slot is used up: a trimmed page.
const GONE: u32 = u32::MAX - 1;
/// No data block.
const NONE: u32 = u32::MAX;
/// Extra blocks beside the random log: the sequential log block, and one to merge into.
const OTHER_BLOCKS: u32 = 2;
/// Entries of the map in a line of the processor's cache.
const LINE_PLACES: usize = 64 / size_of::<u32>();

/// The FAST scheme.
pub struct Fast {
    shape: FlashShape,
    /// The place of each page, or [`FREE`] or [`GONE`].
    map: Vec<u32>,
    /// The data block of each of the host's blocks, or [`NONE`].
    data: Vec<u32>,
    sequential: Option<SequentialLog>,
    random: VecDeque<FlashBlock>,
    /// Pages that are left in the youngest random log block.
    random_left: u32,
    log_blocks: u32,
}

/// The sequential log.
#[derive(Clone, Copy)]
struct SequentialLog {
    /// The host's block that owns it.
    owner: u32,
    block: FlashBlock,
    /// The offset of the page that is appended next.
    next: u32,
}

impl Fast {
    /// Returns the scheme for an erased flash of `shape`, with `log_blocks` random log blocks, or as many as possible.
    ///
    /// # Errors
    /// The shape has too few extra blocks for them.
    pub fn new(shape: FlashShape, log_blocks: Option<u32>) -> Result<Self> {
        let extra = shape.extra_blocks;
        let most = extra.saturating_sub(OTHER_BLOCKS);
        if most == 0 {
            return Err(Error::Model(format!(
                "FAST needs {} extra blocks at least, not {extra}: for the random log, for the sequential log, and to \
                 merge into",
                OTHER_BLOCKS + 1
            )));
        }
        let log_blocks = log_blocks.unwrap_or(most);
        if log_blocks == 0 || log_blocks > most {
            return Err(Error::Model(format!(
                "{extra} extra blocks hold 1 to {most} random log blocks, not {log_blocks}: FAST needs {OTHER_BLOCKS} more \
                 than those, for the sequential log and to merge into"
            )));
        }
        Ok(Self {
            shape,
            map: huge_table(FREE, shape.host_pages() as usize),
            data: vec![NONE; shape.logical_blocks as usize],
            sequential: None,
            random: VecDeque::new(),
            random_left: 0,
            log_blocks,
        })
    }

    fn put(&mut self, page: HostPage, at: FlashPage, flash: &mut Flash) {
        flash.program(page, at);
        self.map[page.0 as usize] = at.0;
    }

    /// Writes a page into its free slot (FA1).
    fn write_in_place(&mut self, page: HostPage, flash: &mut Flash) {
        let (owner, offset) = self.split(page);
        let data = &mut self.data[owner as usize];
        if *data == NONE {
            *data = flash.take_free().0;
        }
        let at = self.shape.page_at(FlashBlock(*data), offset);
        self.put(page, at, flash);
    }

    fn split(&self, HostPage(page): HostPage) -> (u32, u32) {
        (page / self.shape.block_pages, page % self.shape.block_pages)
    }

    /// Begins a new sequential log (FA2).
    fn begin_sequential(&mut self, owner: u32, page: HostPage, flash: &mut Flash) {
        if let Some(sequential) = self.sequential {
            self.end_sequential(sequential, None, flash);
        }
        let block = flash.take_free();
        self.sequential = Some(SequentialLog { owner, block, next: 1 });
        let at = self.shape.page_at(block, 0);
        self.put(page, at, flash);
    }

    /// Writes a page of the block that owns the sequential log (FA3).
    fn write_owned(&mut self, sequential: SequentialLog, page: HostPage, flash: &mut Flash) {
        let (owner, offset) = self.split(page);
        if offset == sequential.next {
            self.sequential = Some(SequentialLog { next: offset + 1, ..sequential });
            let at = self.shape.page_at(sequential.block, offset);
            self.put(page, at, flash);
        } else if offset > sequential.next {
            self.end_sequential(sequential, Some(page), flash);
        } else {
            self.merge_fully(owner, Some(page), flash);
            self.sequential = None;
            flash.erase(sequential.block);
        }
    }

    /// Makes the sequential log the data block: by switch, or after copying the remaining pages into it.
    fn end_sequential(&mut self, sequential: SequentialLog, new: Option<HostPage>, flash: &mut Flash) {
        let SequentialLog { owner, block, next } = sequential;
        if next == self.shape.block_pages {
            flash.counts.switch_merges += 1;
        } else {
            flash.counts.partial_merges += 1;
            self.gather(Gathering { owner, to: block, from_offset: next, new }, flash);
        }
        self.sequential = None;
        self.replace_data(owner, block, flash);
    }

    fn merge_fully(&mut self, owner: u32, new: Option<HostPage>, flash: &mut Flash) {
        flash.counts.full_merges += 1;
        let to = flash.take_free();
        self.gather(Gathering { owner, to, from_offset: 0, new }, flash);
        self.replace_data(owner, to, flash);
    }

    fn replace_data(&mut self, owner: u32, by: FlashBlock, flash: &mut Flash) {
        let old = std::mem::replace(&mut self.data[owner as usize], by.0);
        flash.erase(FlashBlock(old));
    }

    /// Copies the newest version of each page of a block to its slot in another (FA5).
    fn gather(&mut self, Gathering { owner, to, from_offset, new }: Gathering, flash: &mut Flash) {
        let first = owner * self.shape.block_pages;
        for offset in from_offset..self.shape.block_pages {
            let page = HostPage(first + offset);
            let slot = self.shape.page_at(to, offset);
            if new == Some(page) {
                self.put(page, slot, flash);
                continue;
            }
            let place = &mut self.map[page.0 as usize];
            if *place >= GONE {
                *place = FREE;
            } else {
                flash.copy(FlashPage(*place), slot);
                *place = slot.0;
            }
        }
    }

    /// Appends a page to the random log (FA4).
    fn append(&mut self, page: HostPage, flash: &mut Flash) {
        if self.random_left == 0 {
            if self.random.len() as u32 == self.log_blocks {
                self.reclaim(flash);
                // The slot of a trimmed page is free after the merge of its block.
                if self.map[page.0 as usize] == FREE {
                    return self.write_in_place(page, flash);
                }
            }
            self.random.push_back(flash.take_free());
            self.random_left = self.shape.block_pages;
        }
        let youngest = *self.random.back().expect("one was just pushed where none was");
        let at = self.shape.page_at(youngest, self.shape.block_pages - self.random_left);
        self.random_left -= 1;
        self.put(page, at, flash);
    }

    fn reclaim(&mut self, flash: &mut Flash) {
        let oldest = self.random.pop_front().expect("there is at least one log block");
        let in_log = |at| (flash.page_at(at).expect("an old log block is full"), at);
        let mut valid: Vec<_> = self.shape.pages_of(oldest).map(in_log).collect();
        valid.iter().for_each(|(page, _)| self.foresee(*page));
        valid.retain(|(page, at)| self.is_at(*page, *at));
        for (i, &(page, at)) in valid.iter().enumerate() {
            // An earlier merge of the same block may have copied the page.
            if !self.is_at(page, at) {
                continue;
            }
            let (owner, _) = self.split(page);
            let mut later = valid[i + 1..].iter().map(|(page, _)| self.split(*page).0);
            if let Some(next) = later.find(|later| *later != owner) {
                self.foresee_merges(next, later.find(|later| *later != next), flash);
            }
            match self.sequential.filter(|sequential| sequential.owner == owner) {
                Some(sequential) => self.end_sequential(sequential, None, flash),
                None => self.merge_fully(owner, None, flash),
            }
        }
        flash.erase(oldest);
        flash.counts.reclaimed_blocks += 1;
    }

    fn is_at(&self, page: HostPage, at: FlashPage) -> bool {
        self.map[page.0 as usize] == at.0
    }

    /// Prefetches the state that the next merges need, in the order of its use: the part of the map for the merge after
    /// `next`, and the flash pages that the map names for `next`.
    fn foresee_merges(&self, next: u32, later: Option<u32>, flash: &Flash) {
        let places = |owner| {
            let first = (owner * self.shape.block_pages) as usize;
            first..first + self.shape.block_pages as usize
        };
        self.map[places(next)].iter().for_each(|at| flash.foresee(FlashPage(*at)));
        let lines = later.into_iter().flat_map(|later| places(later).step_by(LINE_PLACES));
        lines.for_each(|at| prefetch(&self.map, at));
    }
}

/// A copy of a block's pages into another block.
struct Gathering {
    owner: u32,
    to: FlashBlock,
    /// The first slot to fill.
    from_offset: u32,
    /// The page that the host is writing, which becomes a part of the copy.
    new: Option<HostPage>,
}

impl Translation for Fast {
    fn write(&mut self, page: HostPage, flash: &mut Flash) {
        if self.map[page.0 as usize] == FREE {
            return self.write_in_place(page, flash);
        }
        let (owner, offset) = self.split(page);
        if offset == 0 {
            return self.begin_sequential(owner, page, flash);
        }
        match self.sequential.filter(|sequential| sequential.owner == owner) {
            Some(sequential) => self.write_owned(sequential, page, flash),
            None => self.append(page, flash),
        }
    }

    fn trim(&mut self, page: HostPage, _: &mut Flash) {
        let place = &mut self.map[page.0 as usize];
        if *place != FREE {
            *place = GONE;
        }
    }

    fn foresee(&self, page: HostPage) {
        prefetch(&self.map, page.0 as usize);
    }

    fn locate(&self, page: HostPage) -> Option<FlashPage> {
        let at = self.map[page.0 as usize];
        (at < GONE).then_some(FlashPage(at))
    }
}
