//! How often the processor walked page tables, counted by itself where it has such counters.

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult};
use perf_event::{Builder, Counter};

use crate::{Error, Result};

/// Counts this thread's walks for data, in programs and in the kernel.
pub struct Walks(Counter);

impl Walks {
    /// Counts those of stores, or of loads; a processor that does not tell them apart counts both.
    ///
    /// # Errors
    /// Where the machine has no such counter, or keeps it to itself.
    pub fn count(stores: bool) -> Result<Self> {
        let of = |operation| Cache { which: CacheId::DTLB, operation, result: CacheResult::MISS };
        let build = |operation| Builder::new(of(operation)).exclude_kernel(false).build();
        let first = if stores { CacheOp::WRITE } else { CacheOp::READ };
        let counter = build(first).or_else(|_| build(CacheOp::READ));
        Ok(Self(counter.map_err(Error::io("counting TLB misses"))?))
    }

    /// Those that `work` took, and what it gave.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> Result<(u64, T)> {
        let told = || Error::io("counting TLB misses");
        self.0.reset().and_then(|()| self.0.enable()).map_err(told())?;
        let given = work();
        self.0.disable().map_err(told())?;
        Ok((self.0.read().map_err(told())?, given))
    }
}

/// Why TLB misses cannot be counted here.
pub fn missing() -> Option<String> {
    Walks::count(false).and_then(|mut walks| walks.during(|| ())).err().map(|why| why.to_string())
}
