//! The way in which the stores of a guest reach its frames.
//!
//! - VP1. After [`Plane::map`] returned, stores to the pages reach the frames.
//! - VP2. After [`Plane::stage`] returned, no store of any thread reaches the old frames: a later one faults first.
//! - VP3. The engine never uses the guest's own addresses: it reads and writes frames through the pool's memory.
//! - VP4. A page whose truth is a frame is shown only after the lines of the frame were made durable: the program's own
//!   flush reaches the bytes that it is shown, and no longer the frame that it stored to.

/// The mappings of a guest. Pages are numbers within the guest.
pub trait Plane: Send + Sync {
    /// Makes pages writable at their frames: each with the frame's address in the pool's memory. The engine is locked.
    fn map(&self, pages: &[(u64, u64)]);

    /// Takes the mappings of `count` pages from `first` on away (VP2). The engine is not locked.
    fn stage(&self, first: u64, count: u64);

    /// Shows `bytes` at `page`, read-only. The engine is locked.
    fn fill(&self, page: u64, bytes: &[u8]);
}

/// No mappings: every access goes through the engine.
pub struct DirectPlane;

impl Plane for DirectPlane {
    fn map(&self, _pages: &[(u64, u64)]) {}

    fn stage(&self, _first: u64, _count: u64) {}

    fn fill(&self, _page: u64, _bytes: &[u8]) {}
}
