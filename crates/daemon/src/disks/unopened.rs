//! Space of thin disks that are not open.

use std::sync::Arc;

use ferrite_block::{BlockDisk, DiskOptions, DiskShape};
use ferrite_pool::{Freeze, Tag};

use super::OpenDisks;

impl Freeze for OpenDisks {
    /// Open disks stop by themselves.
    fn freeze(&self) {}

    fn thaw(&self) {}

    fn spare_of_unopened(&self) -> bool {
        // The thread that holds the lock may wait for the caller.
        let Some(open) = self.open.try_lock() else { return false };
        if self.usual.lock().read_only {
            return false;
        }
        let is_thin = |tag: &Arc<Tag>| DiskShape::read(tag).is_ok_and(|shape| shape.thin);
        let is_closed = |tag: &Arc<Tag>| !open.contains_key(&tag.name);
        let may_have_some = |tag: &Arc<Tag>| !self.dry.lock().contains(&tag.generation);
        let mut closed = self.pool.tags().into_iter().filter(is_thin).filter(is_closed).filter(may_have_some);
        closed.any(|tag| self.give_of(&tag))
    }
}

impl OpenDisks {
    /// Opens the disk of `tag` and frees the space that it can spare. Returns true if that was any.
    fn give_of(&self, tag: &Tag) -> bool {
        let disk = BlockDisk::open(Arc::clone(&self.pool), &tag.name, DiskOptions::default());
        // The error of a disk that cannot be opened is reported when it is served.
        let mut gave = false;
        while disk.as_ref().is_ok_and(|disk| disk.spare()) {
            gave = true;
        }
        self.dry.lock().insert(tag.generation);
        gave
    }
}
