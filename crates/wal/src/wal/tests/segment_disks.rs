//! A folder whose files are the disks of a world, so that they crash at the instant of the memory (CW1).
//!
//! ```text
//! disk   sector 0: file's number u64, its length u64; zeros if the disk is no file       sector 1 ..: the file's bytes
//! ```
//!
//! A sync flushes the disk of its file alone. A new file takes a disk of zeros, because a file system shows no bytes of
//! a removed file.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use ferrite_crash::{LyingDisk, LyingMemory, World};
use ferrite_disk::{Access, Disk, Geometry};

use crate::segment::SegmentFolder;

const SECTOR: u64 = 512;
/// The bytes that a file may have.
const FILE_BYTES: u64 = 24 << 10;
/// The most files of a run.
const FILES_MAX: usize = 32;

/// A folder of disks. Clones are the same folder.
#[derive(Clone)]
pub struct SegmentDisks {
    disks: Vec<Arc<LyingDisk>>,
    is_deaf: bool,
}

/// The first sector of a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileEntry {
    Unused,
    File { segment: u64, bytes: u64 },
    Removed,
}

/// Returns a world of `memory` and the disks of an empty folder.
pub fn world_of(memory: Arc<LyingMemory>) -> World {
    let geometry = Geometry {
        size: SECTOR + FILE_BYTES,
        sector_bytes: SECTOR as u32,
        atomic_bytes: SECTOR as u32,
        preferred_bytes: SECTOR as u32,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    };
    World::new(memory, (0..FILES_MAX).map(|_| LyingDisk::new(geometry.clone())))
}

impl SegmentDisks {
    /// Returns the folder of `world`.
    pub fn of(world: &World) -> Self {
        Self { disks: (0..FILES_MAX).map(|number| world.disk(number).clone()).collect(), is_deaf: false }
    }

    /// Returns the folder with syncs that do nothing and succeed.
    pub fn deaf(self) -> Self {
        Self { is_deaf: true, ..self }
    }

    /// Returns the disk of `segment`, and the length of the file.
    fn find(&self, segment: u64) -> io::Result<Option<(&LyingDisk, u64)>> {
        for disk in &self.disks {
            match FileEntry::read(disk)? {
                FileEntry::File { segment: found, bytes } if found == segment => return Ok(Some((disk, bytes))),
                _ => {}
            }
        }
        Ok(None)
    }

    fn existing(&self, segment: u64) -> io::Result<(&LyingDisk, u64)> {
        self.find(segment)?.ok_or(ErrorKind::NotFound.into())
    }

    fn unused(&self) -> &LyingDisk {
        let unused = self.disks.iter().find(|disk| disk.snapshot().iter().all(|byte| *byte == 0));
        unused.expect("a run has few files")
    }
}

impl FileEntry {
    fn read(disk: &LyingDisk) -> io::Result<Self> {
        let mut sector = [0; SECTOR as usize];
        disk.read(0, &mut sector).map_err(io::Error::other)?;
        let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"));
        Ok(match word(0) {
            0 => Self::Unused,
            u64::MAX => Self::Removed,
            number => Self::File { segment: number - 1, bytes: word(8) },
        })
    }

    fn write(self, disk: &LyingDisk) -> io::Result<()> {
        let (number, bytes) = match self {
            Self::Unused => (0, 0),
            Self::Removed => (u64::MAX, 0),
            Self::File { segment, bytes } => (segment + 1, bytes),
        };
        let mut sector = [0; SECTOR as usize];
        sector[..8].copy_from_slice(&number.to_le_bytes());
        sector[8..16].copy_from_slice(&bytes.to_le_bytes());
        disk.write(0, &sector, Access::Cached).map_err(io::Error::other)
    }
}

impl SegmentFolder for SegmentDisks {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for disk in &self.disks {
            if let FileEntry::File { segment, .. } = FileEntry::read(disk)? {
                found.push(segment);
            }
        }
        Ok(found)
    }

    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (disk, length) = self.find(segment)?.unwrap_or_else(|| (self.unused(), 0));
        let end = at + bytes.len() as u64;
        let (first, after) = (at / SECTOR, end.div_ceil(SECTOR));
        let mut sectors = vec![0; ((after - first) * SECTOR) as usize];
        disk.read((1 + first) * SECTOR, &mut sectors).map_err(io::Error::other)?;
        let skipped = (at - first * SECTOR) as usize;
        sectors[skipped..skipped + bytes.len()].copy_from_slice(bytes);
        disk.write((1 + first) * SECTOR, &sectors, Access::Cached).map_err(io::Error::other)?;
        if end > length { FileEntry::File { segment, bytes: end }.write(disk) } else { Ok(()) }
    }

    fn persist_segment(&mut self, segment: u64) -> io::Result<()> {
        let (disk, _) = self.existing(segment)?;
        if self.is_deaf { Ok(()) } else { disk.flush().map_err(io::Error::other) }
    }

    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let (disk, length) = self.existing(segment)?;
        let read = length.saturating_sub(at).min(into.len() as u64) as usize;
        let mut sectors = vec![0; FILE_BYTES as usize];
        disk.read(SECTOR, &mut sectors).map_err(io::Error::other)?;
        into[..read].copy_from_slice(&sectors[at as usize..][..read]);
        Ok(read)
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        FileEntry::Removed.write(self.existing(segment)?.0)
    }

    fn location(&self) -> String {
        "the folder of disks".into()
    }
}
