//! The space and the inodes of a file system.

use ferrite_pool::layout::{CHUNK, CHUNK_PAGES, PAGE};

use crate::Statfs;
use crate::format::layout::ChunkKind;
use crate::tree::{TreeLayer, inode_lifetime};

/// Bytes of a word of an index.
const WORD: u64 = 8;

/// See [`crate::FileSystem::statfs`].
pub(crate) fn statfs(tree: &TreeLayer) -> Statfs {
    inode_lifetime::free_removed(tree);
    tree.space.drain_deferred_frees();
    let pool_free = tree.pool().space().idle_bytes_up_to(u64::MAX);
    let is_awaited = tree.clients.has_orphaned_clients();
    let (mut free, mut awaited, mut own) = (pool_free, 0, Statfs::default());
    for chunk in 0..tree.space.chunks() {
        let Some(kind) = tree.space.kind(chunk) else { continue };
        own.own_bytes += CHUNK;
        let side = if is_awaited && tree.space.is_barred(chunk) { &mut awaited } else { &mut free };
        match kind {
            ChunkKind::Free => *side += CHUNK,
            ChunkKind::Data => *side += tree.space.free_pages(chunk) * PAGE,
            ChunkKind::Index if tree.space.free_pages(chunk) == CHUNK_PAGES => *side += CHUNK,
            ChunkKind::Index => {}
            ChunkKind::Super => own.super_bytes += CHUNK,
            ChunkKind::Inodes if tree.space.has_only_free_inodes(chunk) => *side += CHUNK,
            ChunkKind::Inodes => {}
        }
    }
    let (pages, chunks) = tree.space.deferred_frees.count();
    *if is_awaited { &mut awaited } else { &mut free } += pages * PAGE + chunks * CHUNK;
    let pool_side = free;
    let slots = tree.slots.as_ref().map_or((0, 0), |slots| slots.room());
    // A page that is away needs a word in the pool.
    let content = tree.content_space();
    let words = (content.free + content.used) / WORD;
    (own.free_bytes, own.awaited_bytes) = (free + slots.1.min(words) * PAGE, awaited);
    own.super_bytes = own.super_bytes.saturating_sub(chunks * CHUNK);
    own.total_bytes = own.own_bytes + pool_free + slots.0 * PAGE;
    let (used, free) = tree.space.inode_count(tree.memory());
    (own.inodes, own.free_inodes) = (used - 1, free + tree.inodes_of(pool_side));
    own
}
