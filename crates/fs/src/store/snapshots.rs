//! What a thread sees of a file without its lock.

use ferrite_memory::{Memory, pin};
use ferrite_pool::layout::CHUNK;

use crate::Ino;
use crate::share::layout::shared_state::Board;
use crate::store::Store;
use crate::view::hints::{self, Piece};
use crate::view::inode_snapshot::{Sight, Viewer};
use crate::view::version::Version;

impl Store {
    #[inline(always)]
    pub(crate) fn viewer(&self, ino: Ino, version: Version) -> Viewer<'_, dyn Memory + '_, Board> {
        Viewer { memory: self.memory(), board: &self.space.board, ino, version }
    }

    /// A regular file at a glance, as this thread remembers it, and where the `len` bytes from byte `at` on lie, if they are
    /// before the end and together in a page or superpage.
    #[inline(always)]
    pub(crate) fn glance(&self, ino: Ino, version: Version, at: u64, len: usize) -> Option<(Sight, u64)> {
        let viewer = self.viewer(ino, version);
        let seen = viewer.recall(at)?;
        viewer.place_of(&seen, at, len).map(|place| (seen, place))
    }

    /// Looks at the file around byte `at`, to be remembered.
    pub(crate) fn look_at(&self, ino: Ino, at: u64) {
        let _pin = pin();
        if let Some(version) = self.locks.version(ino) {
            self.viewer(ino, version).look(at);
        }
    }

    /// Forgets what this thread saw of the file around byte `at`.
    pub(crate) fn forget_glance(&self, ino: Ino, at: u64) {
        hints::forget(Piece { board: self.space.board.id, ino, block: at / CHUNK });
    }
}
