//! Which block is collected next.

use std::collections::VecDeque;

use super::{FlashBlock, FlashShape};

mod cost_benefit;
mod tournament;

use cost_benefit::CostBenefitLists;
use tournament::Tournament;

/// How the victim of a collection is chosen, among the blocks that are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimChoice {
    /// The one with most invalid pages, of several the lowest.
    #[default]
    Greedy,
    /// The one with the greatest age x (1 - u) / 2u, where u is the valid part and the age is counted in host writes
    /// since one of its pages last became invalid, or since it was filled (Kawaguchi, Nishioka, Motoda 1995); of
    /// several the one with most invalid pages, then the oldest.
    CostBenefit,
    /// The one that was filled first.
    Fifo,
}

impl VictimChoice {
    /// All of them, by the names that people type.
    pub const ALL: [(&'static str, Self); 3] =
        [("greedy", Self::Greedy), ("cost-benefit", Self::CostBenefit), ("fifo", Self::Fifo)];
}

/// The blocks that may be collected.
pub(super) enum VictimSet {
    Greedy(Tournament),
    CostBenefit(CostBenefitLists),
    Fifo(VecDeque<FlashBlock>),
}

/// A block and how many of its pages are invalid.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) block: FlashBlock,
    pub(super) invalid_pages: u16,
}

impl VictimSet {
    pub(super) fn new(choice: VictimChoice, shape: FlashShape) -> Self {
        match choice {
            VictimChoice::Greedy => Self::Greedy(Tournament::new(shape.blocks() as usize)),
            VictimChoice::CostBenefit => Self::CostBenefit(CostBenefitLists::new(shape)),
            VictimChoice::Fifo => Self::Fifo(VecDeque::new()),
        }
    }

    /// The block is full: it may be collected.
    pub(super) fn enter(&mut self, candidate: Candidate, now: u64) {
        match self {
            Self::Greedy(tournament) => tournament.set(candidate.block, candidate.invalid_pages + 1),
            Self::CostBenefit(ages) => ages.enter(candidate, now),
            Self::Fifo(queue) => queue.push_back(candidate.block),
        }
    }

    /// One more of its pages is invalid.
    pub(super) fn invalidate(&mut self, candidate: Candidate, now: u64) {
        match self {
            Self::Greedy(tournament) => tournament.raise(candidate.block, candidate.invalid_pages + 1),
            Self::CostBenefit(ages) => ages.invalidate(candidate, now),
            Self::Fifo(_) => {}
        }
    }

    /// Takes the next victim.
    pub(super) fn take(&mut self, now: u64) -> Option<FlashBlock> {
        match self {
            Self::Greedy(tournament) => tournament.take(),
            Self::CostBenefit(ages) => ages.take(now),
            Self::Fifo(queue) => queue.pop_front(),
        }
    }
}
