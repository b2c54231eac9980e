//! Whether members may be written (CA12).

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::planted;

/// The right to write to members. The end of a copy of the pool ends it, until every member has a generation that is
/// newer than the copy (CA12).
#[derive(Debug, Default)]
pub(crate) struct MemberPass {
    /// Copies of the pool that may have been made.
    copies: AtomicU64,
    /// The number of those than which the members' generation is newer.
    covered: AtomicU64,
}

impl MemberPass {
    /// Returns true if members may be written.
    pub fn is_given(&self) -> bool {
        self.covered.load(Ordering::SeqCst) == self.copies.load(Ordering::SeqCst)
    }

    /// Notes that the pool may have been copied.
    pub fn note_copy(&self) {
        self.copies.fetch_add(1, Ordering::SeqCst);
    }

    /// Gives members a new generation by `advance`. A copy that is made during that may have the generation before: then
    /// members need another one.
    pub fn renew<E>(&self, advance: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let copies = self.copies.load(Ordering::SeqCst);
        advance()?;
        let is_late = planted!("cache: a copy amid new generations is forgotten");
        self.covered.store(if is_late { self.copies.load(Ordering::SeqCst) } else { copies }, Ordering::SeqCst);
        Ok(())
    }
}
