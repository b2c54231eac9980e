//! Bytes that are lent at their place to a borrower for which no caller waits.

use std::os::fd::BorrowedFd;

/// Bytes of a file that do not change, for the kernel to send from.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'owner> {
    /// The file.
    pub file: BorrowedFd<'owner>,
    /// Offset of the bytes in the file.
    pub at: u64,
    /// Number of the bytes.
    pub len: u64,
}

/// The borrower of lent bytes.
pub trait Borrower: Send + Sync {
    /// Returns true if the borrower needs the bytes no longer; from then on it always does. Called by any thread that
    /// wants the space for something else, and returns at once.
    fn has_returned(&self) -> bool;
}
