//! A disk in ordinary memory: the model that real disks are tested against, and a disk for tests of what stands on one.

use std::sync::{PoisonError, RwLock};

use crate::{Access, Disk, Geometry, Run, Zeroing};
use ferrite_memory::{Result, Span};

/// A disk of zeros at first, gone with the process.
pub struct RamDisk {
    bytes: RwLock<Vec<u8>>,
    geometry: Geometry,
}

impl RamDisk {
    /// A disk of `size` bytes, rounded down to whole sectors of 512.
    pub fn new(size: u64) -> Self {
        let geometry = Geometry {
            size: size / 512 * 512,
            sector_bytes: 512,
            atomic_bytes: 512,
            preferred_bytes: 4096,
            volatile_cache: false,
            read_only: false,
            trim: true,
            identity: [0; 16],
        };
        Self::with_geometry(geometry)
    }

    /// A disk with the properties of another.
    pub fn with_geometry(geometry: Geometry) -> Self {
        Self { bytes: RwLock::new(vec![0; geometry.size as usize]), geometry }
    }

    fn change(&self, span: Span, by: impl FnOnce(&mut [u8])) -> Result<()> {
        self.check(span)?;
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        by(&mut bytes[span.at as usize..][..span.len as usize]);
        Ok(())
    }
}

impl Disk for RamDisk {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.check(Span::new(at, into.len() as u64))?;
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        into.copy_from_slice(&bytes[at as usize..][..into.len()]);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], _: Access) -> Result<()> {
        self.change(Span::new(at, from.len() as u64), |bytes| bytes.copy_from_slice(from))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self, span: Span, _: Access) -> Result<()> {
        self.change(span, |bytes| bytes.fill(0))
    }

    fn write_zeroes(&self, span: Span, _: Zeroing) -> Result<()> {
        self.change(span, |bytes| bytes.fill(0))
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.check(span)?;
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let sectors = bytes[span.at as usize..][..span.len as usize].chunks(512);
        let mut runs: Vec<Run> = Vec::new();
        for sector in sectors {
            let zero = sector.iter().all(|byte| *byte == 0);
            match runs.last_mut() {
                Some(run) if run.zero == zero => run.len += sector.len() as u64,
                _ => runs.push(Run { len: sector.len() as u64, hole: zero, zero }),
            }
        }
        Ok(runs)
    }
}
