//! Lookups in a file without its lock.

use ferrite_memory::{Memory, pin};
use ferrite_pool::layout::CHUNK;

use crate::Ino;
use crate::share::layout::shared_state::SharedState;
use crate::store::ChunkStore;
use crate::view::hints::{self, FileBlock};
use crate::view::inode_snapshot::{InodeReader, InodeSnapshot};
use crate::view::version::LockVersion;

impl ChunkStore {
    #[inline(always)]
    pub(crate) fn reader(&self, ino: Ino, version: LockVersion) -> InodeReader<'_, dyn Memory + '_, SharedState> {
        InodeReader { memory: self.memory(), shared_state: &self.space.shared_state, ino, version }
    }

    /// Returns this thread's cached snapshot of a regular file, and where the `len` bytes from byte `at` on lie, if
    /// they are before the end and adjacent in a page or superpage.
    #[inline(always)]
    pub(crate) fn snapshot_place(
        &self,
        ino: Ino,
        version: LockVersion,
        at: u64,
        len: usize,
    ) -> Option<(InodeSnapshot, u64)> {
        let reader = self.reader(ino, version);
        let seen = reader.recall(at)?;
        reader.place_of(&seen, at, len).map(|place| (seen, place))
    }

    /// Looks at the file around byte `at`, to be remembered.
    pub(crate) fn cache_snapshot(&self, ino: Ino, at: u64) {
        let _pin = pin();
        if let Some(version) = self.locks.version(ino) {
            self.reader(ino, version).look(at);
        }
    }

    /// Forgets what this thread saw of the file around byte `at`.
    pub(crate) fn forget_snapshot(&self, ino: Ino, at: u64) {
        hints::forget(FileBlock { shared_state: self.space.shared_state.id, ino, block: at / CHUNK });
    }
}
