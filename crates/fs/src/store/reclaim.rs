//! Space for a change that finds none.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use crate::store::ChunkStore;
use crate::{Error, Result};

/// How often a change without space is retried, while other threads free and allocate some.
const SPACE_TRIES: u32 = 100;
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
            if !done.as_ref().is_err_and(Error::is_no_space) {
                return done;
            }
            let maker = self.space_maker.get().and_then(Weak::upgrade);
            if !maker.is_some_and(|maker| maker.make_space(made)) {
                break;
            }
        }
        // Also if nothing could be freed: another thread may just have freed some.
        work()
    }
}
