//! A disk that copies nothing. A server of this disk shows the time that the server takes without its memory.

use std::fs::File;
use std::sync::Arc;

use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::{Borrower, Lent, MapOptions, Mapped, Memory, Result, Span};

/// Bytes of the memory that every read is lent: one huge page.
pub const LENT_BYTES: u64 = 2 << 20;

/// A disk that drops every write. A read leaves the buffer unchanged, or is lent the same bytes each time.
pub struct VoidDisk {
    size: u64,
    memory: Mapped,
}

impl VoidDisk {
    /// A disk of `size` bytes that lends the first [`LENT_BYTES`] bytes of `file`.
    pub fn new(size: u64, file: File) -> Result<Self> {
        let memory = Mapped::map(file, &MapOptions::default())?;
        memory.populate(Span::new(0, LENT_BYTES))?;
        Ok(Self { size, memory })
    }
}

impl Disk for VoidDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            sector_bytes: 512,
            atomic_bytes: 512,
            preferred_bytes: 4096,
            volatile_cache: false,
            read_only: false,
            trim: false,
            identity: [0; 16],
        }
    }

    fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8], _: Access) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn lend(&self, span: Span, least_bytes: u64, _: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        let len = span.len.min(LENT_BYTES);
        self.memory.lend(Span::new(0, len)).filter(|_| len >= least_bytes)
    }
}

#[cfg(test)]
mod tests;
