//! The disk that a tag of counters also is.

use std::sync::Arc;

use ferrite_disk::{Access, Disk, Geometry, Zeroing};
use ferrite_memory::{Error, Result, Span};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Pool, Role, Stream, Tag};

/// Bytes of a sector.
const SECTOR: u32 = 512;

/// A read-only disk with the bytes of the page.
pub struct CounterDisk {
    pool: Arc<Pool>,
    at: u64,
    identity: [u8; 16],
}

impl CounterDisk {
    /// Returns the disk of `tag`; `None` if the tag has no page.
    pub fn of(pool: &Arc<Pool>, tag: &Tag) -> Option<Self> {
        let at = Stream::new(&tag.extents, Role::DATA).locate(0)?.at;
        let mut identity = pool.superblock().uuid;
        identity[..8].copy_from_slice(&tag.generation.to_le_bytes());
        Some(Self { pool: Arc::clone(pool), at, identity })
    }
}

fn read_only<T>() -> Result<T> {
    Err(Error::ReadOnly)
}

impl Disk for CounterDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: PAGE,
            sector_bytes: SECTOR,
            atomic_bytes: 1,
            preferred_bytes: PAGE as u32,
            volatile_cache: false,
            read_only: true,
            trim: false,
            identity: self.identity,
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.check(Span::new(at, into.len() as u64))?;
        self.pool.memory().load(self.at + at, into);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8], _: Access) -> Result<()> {
        read_only()
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self, _: Span, _: Access) -> Result<()> {
        read_only()
    }

    fn write_zeroes(&self, _: Span, _: Zeroing) -> Result<()> {
        read_only()
    }
}
