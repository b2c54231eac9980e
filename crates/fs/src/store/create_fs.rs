//! Making a file system, removing one, and what its tag gains before this program writes to it.

use std::sync::Arc;

use ferrite_memory::{Scheme, Span};
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Extent, NewTag, Pool, Role, SpaceNeed, Stream, Tag, TagChange, TagKind, Zone};

use crate::format::inode::Inode;
use crate::format::layout::{ChunkKind, INODE, MapPages, map_bytes};
use crate::format::shape::FsShape;
use crate::store::tier_members;
use crate::{FileKind, FsSpec, Ino, Result};

/// Updates `tag` to the newest version before this program writes to the file system, so that older programs refuse
/// it.
pub(crate) fn renew(shape: &FsShape, pool: &Pool, tag: Arc<Tag>) -> Result<Arc<Tag>> {
    if shape.is_newest() {
        return Ok(tag);
    }
    let attributes = FsShape::new(shape.hash_seed, shape.super_threshold_bytes).attributes();
    let change = TagChange { size: tag.size, attributes, add: &[], keep: &tag.extents };
    Ok(pool.change_tag(&tag, &change, |_| Ok(()))?)
}

/// Sees to it that the MAP stream of `tag` has room for all chunks of a pool that has grown.
pub(crate) fn fit_map(pool: &Pool, tag: Arc<Tag>) -> Result<Arc<Tag>> {
    let bytes = map_bytes(pool.memory().size() / CHUNK);
    let have = Stream::new(&tag.extents, Role::MAP).len();
    if have >= bytes {
        return Ok(tag);
    }
    let need = SpaceNeed { role: Role::MAP, zone: Zone::Normal, bytes: bytes - have };
    let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[need], keep: &tag.extents };
    Ok(pool.change_tag(&tag, &change, |extents| zero_map(pool, extents))?)
}
fn zero_map(pool: &Pool, extents: &[Extent]) -> ferrite_pool::Result<()> {
    for extent in extents.iter().filter(|extent| extent.role == Role::MAP) {
        pool.memory().zero(extent.span(), Scheme::Nt);
    }
    Ok(pool.memory().drain()?)
}

/// See [`crate::FileSystem::create`].
pub(crate) fn create(pool: &Pool, name: &str, spec: &FsSpec) -> Result<()> {
    let threshold = spec.super_threshold_bytes.map(|bytes| bytes.max(1));
    let shape = FsShape::new(spec.hash_seed, threshold);
    let needs = [
        SpaceNeed { role: Role::MAP, zone: Zone::Normal, bytes: map_bytes(pool.memory().size() / CHUNK) },
        SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: CHUNK },
    ];
    let attributes = shape.attributes();
    let new = NewTag { name, kind: TagKind::FILES, size: 0, attributes, needs: &needs };
    pool.with_spare(|| pool.create_tag(&new, |extents| prepare(pool, extents, spec)))?;
    Ok(())
}

/// See [`crate::FileSystem::remove`].
pub(crate) fn remove(pool: &Pool, name: &str) -> Result<()> {
    let tag = pool.tag(name)?;
    FsShape::read(&tag)?;
    pool.grants().reap(pool)?;
    if let Some(grant) = pool.grants().standing().iter().find(|grant| grant.tag_generation == tag.generation) {
        let pid = grant.process.pid;
        let why = format!("{name:?} is in use by process {pid}, which works on its files directly: end that first");
        return Err(ferrite_pool::Error::Busy(why).into());
    }
    tier_members::remove_ssds(pool, &tag)?;
    Ok(pool.remove_tag(&tag)?)
}

/// Writes what a new file system has: chunk 0 for inodes, and in it the root directory.
fn prepare(pool: &Pool, extents: &[Extent], spec: &FsSpec) -> ferrite_pool::Result<()> {
    let memory = pool.memory();
    zero_map(pool, extents)?;
    let map = MapPages::new(Stream::new(extents, Role::MAP).runs(Span::new(0, u64::MAX)));
    let base = extents.iter().find(|extent| extent.role == Role::DATA).expect("it was asked for").page * PAGE;
    memory.zero(Span::new(base, CHUNK), Scheme::Nt);
    memory.fence();
    memory.store(map.descriptor(0), &(ChunkKind::Inodes as u64).to_le_bytes(), Scheme::Flush);
    memory.store(map.chunk_word(0), &(base / CHUNK + 1).to_le_bytes(), Scheme::Flush);
    let mut root =
        Inode::load(memory, Ino::ROOT, base + Ino::ROOT.0 * INODE, |_, _| false).with_next_generation(spec.now.0);
    root.head.mode = FileKind::Directory.mode_bits() as u16 | spec.mode & 0o7777;
    (root.head.links, root.head.uid, root.head.gid) = (2, spec.uid, spec.gid);
    root.set_times(spec.now.0);
    root.rest.parent = Ino::ROOT.0;
    let (at, bytes) = root.all_bytes();
    memory.store(at, &bytes, Scheme::Flush);
    Ok(memory.drain()?)
}
