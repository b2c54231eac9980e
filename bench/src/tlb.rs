//! Walks of page tables, counted by the processor if it has such counters.

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult};
use perf_event::{Builder, Counter};

use crate::{Error, Result};

/// Counts this thread's walks for data, in programs and in the kernel.
pub struct Walks(Counter);

impl Walks {
    /// Counts the walks of stores, or of loads; a processor without separate counters counts both.
    ///
    /// # Errors
    /// [`Error::Io`] if the machine has no such counter, or keeps it from this process.
    pub fn count(stores: bool) -> Result<Self> {
        let of = |operation| Cache { which: CacheId::DTLB, operation, result: CacheResult::MISS };
        let build = |operation| Builder::new(of(operation)).exclude_kernel(false).build();
        let first = if stores { CacheOp::WRITE } else { CacheOp::READ };
        let counter = build(first).or_else(|_| build(CacheOp::READ));
        Ok(Self(counter.map_err(Error::io("counting TLB misses"))?))
    }

    /// The walks during `work`, and its result.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> Result<(u64, T)> {
        let failed = || Error::io("counting TLB misses");
        self.0.reset().and_then(|()| self.0.enable()).map_err(failed())?;
        let result = work();
        self.0.disable().map_err(failed())?;
        Ok((self.0.read().map_err(failed())?, result))
    }
}

/// The reason why TLB misses cannot be counted here, or `None`.
pub fn missing() -> Option<String> {
    Walks::count(false).and_then(|mut walks| walks.during(|| ())).err().map(|why| why.to_string())
}

#[cfg(test)]
mod tests;
