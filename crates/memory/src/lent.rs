//! Bytes that are used where they lie, by somebody who is not waited for.

use std::os::fd::BorrowedFd;

/// Bytes of a file that hold still: for the kernel to send from, not to be changed.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'owner> {
    /// The file.
    pub file: BorrowedFd<'owner>,
    /// Where in it they start, in bytes.
    pub at: u64,
    /// How many they are.
    pub len: u64,
}

/// Who bytes are lent to.
pub trait Borrower: Send + Sync {
    /// Whether it needs them no more; once it says so it does for good. Asked by whoever wants their space for something
    /// else, in any thread; it answers at once.
    fn has_returned(&self) -> bool;
}
