//! The choice of the block that is collected next.

use std::collections::VecDeque;

use super::{FlashBlock, FlashShape};

mod cost_benefit;
mod tournament;

use cost_benefit::CostBenefitLists;
use tournament::Tournament;

/// The rule that chooses the victim of a collection among the full blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimChoice {
    /// The block with most invalid pages, of several the lowest.
    #[default]
    Greedy,
    /// The block with the greatest age x (1 - u) / 2u, where u is the valid part. The age is counted in host writes
    /// since one of its pages last became invalid, or since it was filled (Kawaguchi, Nishioka, Motoda 1995). Of
    /// several the block with most invalid pages, then the oldest.
    CostBenefit,
    /// The block that was filled first.
    Fifo,
}

impl VictimChoice {
    /// All rules, by their names on the command line.
    pub const ALL: [(&'static str, Self); 3] =
        [("greedy", Self::Greedy), ("cost-benefit", Self::CostBenefit), ("fifo", Self::Fifo)];
}

/// The blocks that may be collected.
pub(super) enum VictimSet {
    Greedy(Tournament),
    CostBenefit(CostBenefitLists),
    Fifo(VecDeque<FlashBlock>),
}

/// A block and the number of its invalid pages.
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

    /// Adds a full block, which may be collected.
    pub(super) fn enter(&mut self, candidate: Candidate, now: u64) {
        match self {
            Self::Greedy(tournament) => tournament.set(candidate.block, candidate.invalid_pages + 1),
            Self::CostBenefit(ages) => ages.enter(candidate, now),
            Self::Fifo(queue) => queue.push_back(candidate.block),
        }
    }

    /// Notes that one more page of the block is invalid.
    pub(super) fn invalidate(&mut self, candidate: Candidate, now: u64) {
        match self {
            Self::Greedy(tournament) => tournament.raise(candidate.block, candidate.invalid_pages + 1),
            Self::CostBenefit(ages) => ages.invalidate(candidate, now),
            Self::Fifo(_) => {}
        }
    }

    /// Removes the next victim and returns it.
    pub(super) fn take(&mut self, now: u64) -> Option<FlashBlock> {
        match self {
            Self::Greedy(tournament) => tournament.take(),
            Self::CostBenefit(ages) => ages.take(now),
            Self::Fifo(queue) => queue.pop_front(),
        }
    }
}
