//! How a file system is made, and what its tag notes.
//!
//! ```text
//! attributes   0 version u32   4 reserved u32   8 hash seed u64   16 super threshold u64 (0: never)   24 reserved [40]
//! ```

use std::sync::Arc;

use ferrite_memory::{Scheme, Span};
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Extent, Need, NewTag, Pool, Role, Stream, Tag, TagChange, TagKind, Zone};

use crate::format::inode::Inode;
use crate::format::layout::{INODE, MapPages, map_bytes};
use crate::fs::FileSystem;
use crate::store::space::ChunkKind;
use crate::{FsSpec, Ino, Kind, Result};

/// In version 1 no size has a proof: who does not know them would believe a size that a crash left (FP1).
const VERSION: u32 = 2;

/// What the tag of a file system notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    version: u32,
    pub hash_seed: u64,
    pub super_threshold_bytes: Option<u64>,
}

impl Shape {
    /// The shape that `tag` notes.
    pub fn read(tag: &Tag) -> Result<Self> {
        tag.ensure_kind(TagKind::FILES)?;
        let word = |at: usize| u64::from_le_bytes(tag.attributes[at..at + 8].try_into().expect("eight bytes"));
        if !(1..=u64::from(VERSION)).contains(&word(0)) || tag.attributes[24..].iter().any(|byte| *byte != 0) {
            let text = format!("the file system {:?} was made by a newer ferrite: use that", tag.name);
            return Err(ferrite_pool::Error::Limit(text).into());
        }
        let super_threshold_bytes = Some(word(16)).filter(|bytes| *bytes > 0);
        Ok(Self { version: word(0) as u32, hash_seed: word(8), super_threshold_bytes })
    }

    /// That of a new file system.
    pub fn new(hash_seed: u64, super_threshold_bytes: Option<u64>) -> Self {
        Self { version: VERSION, hash_seed, super_threshold_bytes }
    }

    /// `tag`, of this shape, as it is before this program writes to what it names: no program that does not know this version
    /// will then.
    pub fn renew(&self, pool: &Pool, tag: Arc<Tag>) -> Result<Arc<Tag>> {
        if self.version == VERSION {
            return Ok(tag);
        }
        let attributes = Self::new(self.hash_seed, self.super_threshold_bytes).attributes();
        let change = TagChange { size: tag.size, attributes, add: &[], keep: &tag.extents };
        Ok(pool.change_tag(&tag, &change, |_| Ok(()))?)
    }

    pub fn attributes(&self) -> [u8; 64] {
        let mut attributes = [0; 64];
        attributes[..4].copy_from_slice(&self.version.to_le_bytes());
        attributes[8..16].copy_from_slice(&self.hash_seed.to_le_bytes());
        attributes[16..24].copy_from_slice(&self.super_threshold_bytes.unwrap_or(0).to_le_bytes());
        attributes
    }

    /// Sees to it that the MAP stream of `tag` has room for all chunks of a pool that has grown.
    pub fn fit_map(&self, pool: &Pool, tag: Arc<Tag>) -> Result<Arc<Tag>> {
        let bytes = map_bytes(pool.memory().size() / CHUNK);
        let have = Stream::new(&tag.extents, Role::MAP).len();
        if have >= bytes {
            return Ok(tag);
        }
        let need = Need { role: Role::MAP, zone: Zone::Normal, bytes: bytes - have };
        let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[need], keep: &tag.extents };
        Ok(pool.change_tag(&tag, &change, |extents| zero_map(pool, extents))?)
    }
}

fn zero_map(pool: &Pool, extents: &[Extent]) -> ferrite_pool::Result<()> {
    for extent in extents.iter().filter(|extent| extent.role == Role::MAP) {
        pool.memory().zero(extent.span(), Scheme::Nt);
    }
    Ok(pool.memory().settle()?)
}

impl FileSystem {
    /// Makes a file system called `name` with an empty root directory. Durable on return, or not made.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Exists`] and [`ferrite_pool::Error::BadName`] of `name`, [`crate::Error::NoSpace`] where
    /// the pool has no room for it.
    pub fn create(pool: &Pool, name: &str, spec: &FsSpec) -> Result<()> {
        let threshold = spec.super_threshold_bytes.map(|bytes| bytes.max(1));
        let shape = Shape::new(spec.hash_seed, threshold);
        let needs = [
            Need { role: Role::MAP, zone: Zone::Normal, bytes: map_bytes(pool.memory().size() / CHUNK) },
            Need { role: Role::DATA, zone: Zone::Super, bytes: CHUNK },
        ];
        let attributes = shape.attributes();
        let new = NewTag { name, kind: TagKind::FILES, size: 0, attributes, needs: &needs };
        pool.with_spare(|| pool.create_tag(&new, |extents| prepare(pool, extents, spec)))?;
        Ok(())
    }

    /// Removes the file system called `name` and all that is in it. Nobody has it open; refused while a client of it lives.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotFound`], [`ferrite_pool::Error::WrongKind`] and [`ferrite_pool::Error::Limit`] as
    /// [`FileSystem::open`]; [`ferrite_pool::Error::Busy`] beside such a client.
    pub fn remove(pool: &Pool, name: &str) -> Result<()> {
        let tag = pool.tag(name)?;
        Shape::read(&tag)?;
        pool.grants().reap(pool)?;
        if let Some(grant) = pool.grants().standing().iter().find(|grant| grant.tag_generation == tag.generation) {
            let pid = grant.process.pid;
            let why = format!("{name:?} is in use by process {pid}, which works on its files directly: end that first");
            return Err(ferrite_pool::Error::Busy(why).into());
        }
        Ok(pool.remove_tag(&tag)?)
    }
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
    let mut root = Inode::load(memory, Ino::ROOT, base + Ino::ROOT.0 * INODE, |_, _| false).anew(spec.now.0);
    root.head.mode = Kind::Directory.mode_bits() as u16 | spec.mode & 0o7777;
    (root.head.links, root.head.uid, root.head.gid) = (2, spec.uid, spec.gid);
    root.set_times(spec.now.0);
    root.rest.parent = Ino::ROOT.0;
    let (at, bytes) = root.all_bytes();
    memory.store(at, &bytes, Scheme::Flush);
    Ok(memory.settle()?)
}
