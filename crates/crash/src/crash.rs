//! One image that a crash may leave.

use crate::disk::LyingDisk;
use crate::memory::LyingMemory;
use crate::pages::CowPages;
use crate::possible::Possible;
use crate::world::World;

/// The position of an image: the crash point, and the number of the image there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrashPlace {
    /// Number of events before the crash.
    pub point: u64,
    /// Number of the image at the point.
    pub variant: u64,
}

/// One image that a crash may leave, and the operations acknowledged before the crash.
pub struct Crash<'a> {
    pub(crate) possible: &'a Possible,
    /// The bytes of the memory.
    pub(crate) found: CowPages,
    pub(crate) place: CrashPlace,
    pub(crate) seed: u64,
    pub(crate) is_kill: bool,
}

impl Crash<'_> {
    /// Returns the size of the image in bytes.
    pub fn size(&self) -> u64 {
        self.found.size()
    }

    /// Copies bytes out, without the cost of a memory.
    pub fn load(&self, at: u64, into: &mut [u8]) {
        self.found.read(at, into);
    }

    /// Returns the little-endian 8-byte word at `at`.
    pub fn load_word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a copy of all bytes.
    pub fn image(&self) -> Vec<u8> {
        self.found.to_vec()
    }

    /// Returns a lying memory that starts from the image, to run a recovery on. The recovery can be explored too. The
    /// memory shares the pages of the image until they are written.
    pub fn memory(&self) -> LyingMemory {
        match self.is_kill {
            true => LyingMemory::from_possible(self.possible.of_memory()),
            false => LyingMemory::from_pages(self.found.clone(), self.possible.model),
        }
    }

    /// Returns disk `number` of the world, as the crash leaves it.
    pub fn disk(&self, number: usize) -> LyingDisk {
        let (disk, seed) = (&self.possible.disks[number], self.seed ^ self.place.variant);
        match self.is_kill {
            true => LyingDisk::from_possible(disk.clone(), seed),
            false => LyingDisk::after_crash(disk, disk.image.clone(), seed),
        }
    }

    /// Returns the memory and all disks as the crash leaves them, at one instant again: to run a recovery on, which can be
    /// explored too.
    pub fn world(&self) -> World {
        World::new(self.memory(), (0..self.possible.disks.len()).map(|disk| self.disk(disk)))
    }

    /// Returns the marks made before the crash, oldest first.
    pub fn marks(&self) -> &[u64] {
        &self.possible.marks
    }

    /// Returns true if `mark` was made before the crash.
    pub fn has_mark(&self, mark: u64) -> bool {
        self.marks().contains(&mark)
    }

    /// Returns the newest mark.
    pub fn last_mark(&self) -> Option<u64> {
        self.marks().last().copied()
    }

    /// Returns the position of the image.
    pub fn place(&self) -> CrashPlace {
        self.place
    }

    /// Returns the seed of the exploration.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}
