//! Blocks that were lent to borrowers, for which no writer waits (FB3).

use std::ops::Range;
use std::sync::Arc;

use ferrite_memory::{Borrower, planted};
use parking_lot::Mutex;

/// The largest number of loans. At the limit, each borrower is asked whether it has returned its loan.
const LOANS_MAX: usize = 64;

/// The loans of one disk.
#[derive(Default)]
pub(crate) struct Loans(Mutex<LoanState>);

#[derive(Default)]
struct LoanState {
    loans: Vec<BlockLoan>,
    /// Blocks that were freed while they were lent.
    kept: Vec<u32>,
}

struct BlockLoan {
    blocks: Range<u32>,
    borrower: Arc<dyn Borrower>,
}

impl Loans {
    /// Returns true if `count` more blocks can be lent without exceeding `most`. Other threads may lend some at the
    /// same time.
    pub fn have_room(&self, count: u64, most: u64) -> bool {
        let mut state = self.0.lock();
        if !state.has_room(count, most) {
            state.loans.retain(|loan| !loan.borrower.has_returned());
        }
        state.has_room(count, most)
    }

    /// Records that `blocks` are lent. The caller has been pinned since it found them.
    pub fn add(&self, blocks: Range<u32>, borrower: Arc<dyn Borrower>) {
        self.0.lock().loans.push(BlockLoan { blocks, borrower });
    }

    /// Moves the lent blocks of `freed` to the kept ones, and the kept blocks that were returned to `freed`. No pinned
    /// reader can find a block of `freed`, so no reader lends one again.
    pub fn sift(&self, freed: &mut Vec<u32>) {
        if planted!("block: lent blocks are used again") {
            return;
        }
        let LoanState { loans, kept } = &mut *self.0.lock();
        if loans.is_empty() && kept.is_empty() {
            return;
        }
        loans.retain(|loan| !loan.borrower.has_returned());
        freed.append(kept);
        kept.extend(freed.extract_if(.., |block| loans.iter().any(|loan| loan.blocks.contains(block))));
    }
}

impl LoanState {
    fn has_room(&self, count: u64, most: u64) -> bool {
        let lent: u64 = self.loans.iter().map(|loan| loan.blocks.len() as u64).sum();
        self.loans.len() < LOANS_MAX && lent + count <= most
    }
}
