//! The way in which the stores of a guest reach its frames.
//!
//! - VP1. After [`Plane::map`] returned, stores to the pages reach the frames.
//! - VP2. After [`Plane::stage`] returned, no store of any thread reaches the old frames: a later one faults first.
//! - VP3. The engine never uses the guest's own addresses: it reads and writes frames through the pool's memory.
//! - VP4. A page whose truth is a frame is shown only after the lines of the frame were made durable: the program's own
//!   flush reaches the bytes that it is shown, and no longer the frame that it stored to.
//! - VP5. A fault is answered by the state of its page; its message may be late. Every change that an access waits for
//!   wakes it afterwards. An access that cannot be answered now waits for the next batch, and is tried again.
//! - VP6. Once the mappings of a region have three quarters of the number that the kernel allows, no page is mapped that
//!   needs another one: its store waits for a batch, whose pages become one mapping with their neighbours.
//! - VP7. The thread that answers faults never stages, never demotes, and never waits for a frozen pool to thaw: `stage`
//!   returns only after that thread has read the kernel's message.
//! - VP8. While the pool stands still no page of a program is mapped to a frame (VR9).

use ferrite_memory::{Memory, Span};

/// The mappings of a guest. Pages are numbers within the guest.
pub trait Plane: Send + Sync {
    /// Returns true if programs store into frames. If not, a fault of any kind shows the page, which stays writable.
    fn maps_frames(&self) -> bool {
        true
    }

    /// Makes pages writable at their frames: each with the frame's address in the pool's memory. The engine is locked.
    /// Returns false if there is no room for the mappings: stores to the pages fault again (VP6).
    fn map(&self, pages: &[(u64, u64)]) -> bool;

    /// Takes the mappings of `count` pages from `first` on away (VP2). The engine is not locked.
    fn stage(&self, first: u64, count: u64);

    /// Takes all mappings away (VP2). The engine is not locked.
    fn stage_all(&self);

    /// Shows `bytes` at `page`, read-only if frames are mapped. The engine is locked.
    ///
    /// # Errors
    /// The errors of the memory that is shown.
    fn fill(&self, page: u64, bytes: &[u8]) -> ferrite_memory::Result<()>;

    /// Prepares the mappings of the frames at `runs` of the pool's `memory`, some of which are new. The engine is not
    /// locked.
    ///
    /// # Errors
    /// The errors of mapping the memory.
    fn add_frames(&self, memory: &dyn Memory, runs: &[Span]) -> ferrite_memory::Result<()>;
}

/// No mappings: every access goes through the engine.
pub struct DirectPlane;

impl Plane for DirectPlane {
    fn map(&self, _pages: &[(u64, u64)]) -> bool {
        true
    }

    fn stage(&self, _first: u64, _count: u64) {}

    fn stage_all(&self) {}

    fn fill(&self, _page: u64, _bytes: &[u8]) -> ferrite_memory::Result<()> {
        Ok(())
    }

    fn add_frames(&self, _memory: &dyn Memory, _runs: &[Span]) -> ferrite_memory::Result<()> {
        Ok(())
    }
}
