//! Space for a change that finds none.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use crate::error::AwayPages;
use crate::store::ChunkStore;
use crate::{Error, Result};

/// How often a change without space is retried, while other threads free and allocate some.
const SPACE_TRIES: u32 = 100;

/// How often work that wants pages from SSDs is tried again.
const FETCH_TRIES: u32 = 1000;

/// Frees space for a change that finds none: the layers above know what can be freed.
pub trait SpaceMaker: Send + Sync {
    /// Frees space, unless another thread did since the caller read `made` from
    /// [`crate::store::space::ChunkSpace::made`]. Returns true if some space became free. The caller has no lock, and
    /// has not passed the gate.
    fn make_space(&self, made: u64) -> bool;
}

impl ChunkStore {
    /// Runs `work`, and again after each [`Error::NoSpace`] as long as space can be freed: of removed files, whose
    /// space users see as free already, or of pages that clients reserved. The caller has no lock, and has not passed
    /// the gate.
    pub(crate) fn with_space<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..SPACE_TRIES {
            let made = self.space.made.load(Ordering::Acquire);
            let done = work();
            match done {
                Err(Error::Away(pages)) => {
                    self.fetch(&pages);
                    continue;
                }
                Err(error) if error.is_no_space() => {}
                done => return done,
            }
            let maker = self.space_maker.get().and_then(Weak::upgrade);
            if !maker.is_some_and(|maker| maker.make_space(made)) {
                break;
            }
        }
        // Also if nothing could be freed: another thread may just have freed some.
        self.with_pages(work)
    }

    /// Runs `work`, and again after each [`Error::Away`] with the pages that it wanted. The caller has no lock (TI7).
    pub(crate) fn with_pages<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..FETCH_TRIES {
            match work() {
                Err(Error::Away(pages)) => self.fetch(&pages),
                done => return done,
            }
        }
        Err(Error::Ssd("pages were replaced as fast as they were read from their SSDs".into()))
    }

    fn fetch(&self, pages: &AwayPages) {
        if let Some(slots) = &self.slots {
            slots.fetch_missing(&pages.0);
        }
    }
}
