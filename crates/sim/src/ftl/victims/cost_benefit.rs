//! Blocks ordered by cost and benefit.
//!
//! One list for each number of invalid pages. A block that changes lists goes to the end, so each list is ordered by
//! age. The best block of a list is its first, and only the first blocks need to be compared.

use super::super::FlashShape;
use super::{Candidate, FlashBlock};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct AgeLink {
    before: u32,
    after: u32,
    /// Host writes when the block entered its list.
    since: u64,
}

#[derive(Clone, Copy)]
struct AgeList {
    first: u32,
    last: u32,
}

pub(in crate::ftl) struct CostBenefitLists {
    links: Vec<AgeLink>,
    /// The lists, by number of invalid pages.
    lists: Vec<AgeList>,
}

impl CostBenefitLists {
    pub(super) fn new(shape: FlashShape) -> Self {
        Self {
            links: vec![AgeLink { before: NONE, after: NONE, since: 0 }; shape.blocks() as usize],
            lists: vec![AgeList { first: NONE, last: NONE }; shape.block_pages as usize + 1],
        }
    }

    pub(super) fn enter(&mut self, Candidate { block, invalid_pages }: Candidate, now: u64) {
        let list = &mut self.lists[usize::from(invalid_pages)];
        let before = std::mem::replace(&mut list.last, block.0);
        self.links[block.0 as usize] = AgeLink { before, after: NONE, since: now };
        match before {
            NONE => list.first = block.0,
            _ => self.links[before as usize].after = block.0,
        }
    }

    pub(super) fn invalidate(&mut self, candidate: Candidate, now: u64) {
        self.leave(Candidate { invalid_pages: candidate.invalid_pages - 1, ..candidate });
        self.enter(candidate, now);
    }

    fn leave(&mut self, Candidate { block, invalid_pages }: Candidate) {
        let list = &mut self.lists[usize::from(invalid_pages)];
        let AgeLink { before, after, .. } = self.links[block.0 as usize];
        match before {
            NONE => list.first = after,
            _ => self.links[before as usize].after = after,
        }
        match after {
            NONE => list.last = before,
            _ => self.links[after as usize].before = before,
        }
    }

    pub(super) fn take(&mut self, now: u64) -> Option<FlashBlock> {
        let mut best: Option<(f64, Candidate)> = None;
        for (invalid, list) in self.lists.iter().enumerate().rev().filter(|(_, list)| list.first != NONE) {
            let age = now - self.links[list.first as usize].since;
            let score = score(age, invalid, self.lists.len() - 1);
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, Candidate { block: FlashBlock(list.first), invalid_pages: invalid as u16 }));
            }
        }
        let (_, candidate) = best?;
        self.leave(candidate);
        Some(candidate.block)
    }
}

/// Returns age x (1 - u) / 2u; infinite for a block without valid pages.
pub(in crate::ftl) fn score(age: u64, invalid: usize, block_pages: usize) -> f64 {
    match block_pages - invalid {
        0 => f64::INFINITY,
        valid => age as f64 * invalid as f64 / (2 * valid) as f64,
    }
}
