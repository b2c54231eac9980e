//! Blocks that were lent where they lie, to borrowers that nobody waits for (FB3).

use std::ops::Range;
use std::sync::Arc;

use ferrite_memory::{Borrower, planted};
use parking_lot::Mutex;

/// Loans at once; whoever wants one more asks each borrower whether it has returned.
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
    /// Whether `count` more blocks can be lent such that `most` are at once. Others may lend some before the caller does.
    pub fn have_room(&self, count: u64, most: u64) -> bool {
        let mut state = self.0.lock();
        if !state.has_room(count, most) {
            state.forget_returned();
        }
        state.has_room(count, most)
    }

    /// Notes that `blocks` are lent. The caller has been pinned since it found them.
    pub fn add(&self, blocks: Range<u32>, borrower: Arc<dyn Borrower>) {
        self.0.lock().loans.push(BlockLoan { blocks, borrower });
    }

    /// Keeps those of `freed` that are lent, and gives back those that were kept and have been returned. Nobody who is
    /// pinned can find any of `freed` any more, so nobody lends them anew.
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

    fn forget_returned(&mut self) {
        self.loans.retain(|loan| !loan.borrower.has_returned());
    }
}
