//! One image that a crash may leave.

use crate::memory::LyingMemory;
use crate::possible::Possible;

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
    pub(crate) place: CrashPlace,
    pub(crate) seed: u64,
}

impl Crash<'_> {
    /// Returns the size of the image in bytes.
    pub fn size(&self) -> u64 {
        self.possible.image.size()
    }

    /// Copies bytes out, without the cost of a memory.
    pub fn load(&self, at: u64, into: &mut [u8]) {
        self.possible.image.read(at, into);
    }

    /// Returns the little-endian 8-byte word at `at`.
    pub fn load_word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a copy of all bytes.
    pub fn image(&self) -> Vec<u8> {
        self.possible.image.to_vec()
    }

    /// Returns a lying memory that starts from the image, to run a recovery on. The recovery can be explored too. The
    /// memory shares the pages of the image until they are written.
    pub fn memory(&self) -> LyingMemory {
        LyingMemory::from_pages(self.possible.image.clone(), self.possible.model)
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
