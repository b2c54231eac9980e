//! A guest as a [`Disk`]: the block interface.

use std::sync::Arc;

use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::{Result, Span};
use ferrite_pool::layout::PAGE;

use crate::guest_engine::GuestEngine;

/// The bytes of a guest as a disk.
///
/// A completed write survives what the pool survives, at once if the pool's fences are durable, else after the next flush.
/// A crash may tear a sector, as it may tear a store to persistent memory.
pub struct GuestDisk(pub Arc<GuestEngine>);

impl Disk for GuestDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.0.size(),
            sector_bytes: 512,
            atomic_bytes: 8,
            preferred_bytes: PAGE as u32,
            volatile_cache: !self.0.space.memory().fence_is_durable(),
            read_only: false,
            trim: false,
            identity: self.0.space.layout.identity,
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.check(Span::new(at, into.len() as u64))?;
        Ok(self.0.read(at, into)?)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.check(Span::new(at, from.len() as u64))?;
        self.0.write(at, from)?;
        match access {
            Access::Cached => Ok(()),
            Access::Fua => self.flush(),
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(self.0.flush()?)
    }
}
