//! One image that a crash may leave.

use crate::memory::LyingMemory;
use crate::possible::Possible;

/// Which image: the crash point (events before it) and the number of the image there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Events before the crash.
    pub point: u64,
    /// Number of the image at the point.
    pub variant: u64,
}

/// One image that a crash may leave, and what had been acknowledged when it happened.
pub struct Crash<'a> {
    pub(crate) possible: &'a Possible,
    pub(crate) place: Place,
    pub(crate) seed: u64,
}

impl Crash<'_> {
    /// Bytes in the image.
    pub fn size(&self) -> u64 {
        self.possible.image.size()
    }

    /// Copies bytes out, without the cost of a memory.
    pub fn load(&self, at: u64, into: &mut [u8]) {
        self.possible.image.read(at, into);
    }

    /// The little-endian 8-byte word at `at`.
    pub fn load_word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// All bytes, copied.
    pub fn image(&self) -> Vec<u8> {
        self.possible.image.to_vec()
    }

    /// A lying memory that starts from the image, to recover on; the recovery can be explored in its turn. Cheap:
    /// it shares the pages until they are written.
    pub fn memory(&self) -> LyingMemory {
        LyingMemory::from_pages(self.possible.image.clone(), self.possible.model)
    }

    /// The marks made before the crash, oldest first.
    pub fn marks(&self) -> &[u64] {
        &self.possible.marks
    }

    /// Whether `mark` was made before the crash.
    pub fn has_mark(&self, mark: u64) -> bool {
        self.marks().contains(&mark)
    }

    /// The newest mark.
    pub fn last_mark(&self) -> Option<u64> {
        self.marks().last().copied()
    }

    /// Which image it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The seed of the exploration.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}
