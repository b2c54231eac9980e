//! A para-virtual region as a [`Disk`].

use std::sync::Arc;

use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::{Result, Span};
use ferrite_pool::layout::PAGE;

use crate::para_region::ParaRegion;

/// The bytes of a region as a disk whose cache is the program's DRAM: a write locks, stores, unlocks and persists, and a
/// flush is a barrier.
///
/// A write that was not flushed is not there after a crash, and one that is being flushed may be torn. The paper's
/// protected block device over persistent memory is this.
pub struct ParaDisk(pub Arc<ParaRegion>);

impl Disk for ParaDisk {
    fn geometry(&self) -> Geometry {
        let engine = self.0.engine();
        Geometry {
            size: engine.size(),
            sector_bytes: 512,
            atomic_bytes: 8,
            preferred_bytes: PAGE as u32,
            volatile_cache: true,
            read_only: false,
            trim: false,
            identity: engine.space.layout.identity,
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.check(Span::new(at, into.len() as u64))?;
        Ok(self.0.load(at, into)?)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        self.check(span)?;
        self.0.lock(span)?;
        let stored = self.0.store(at, from);
        self.0.unlock(span)?;
        stored?;
        self.0.persist(span)?;
        match access {
            Access::Cached => Ok(()),
            Access::Fua => self.flush(),
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(self.0.barrier()?)
    }
}
