//! A disk that copies nothing: what is left of a server when its memory costs no time.

use ferrite_medium::{Access, Disk, Geometry, Result};

/// Takes every write and forgets it; a read leaves the buffer as it is.
pub struct VoidDisk {
    /// Its size in bytes.
    pub size: u64,
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
}
