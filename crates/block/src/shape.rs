//! The shape of a disk in its pool: its tag, its attributes, its two streams.
//!
//! ```text
//! attributes  0 sector_bytes u32   4 flags u32 (bit 0: thin, bit 1: checksum)   8 blocks u64   16 spares u64   24 zeros
//! map stream  an 8-byte word for each 4 KiB block of the disk: see `map`
//! data stream blocks + spares blocks of 4 KiB, which the map assigns
//! ```

use std::sync::Arc;

use ferrite_memory::{ByteCount, Scheme};
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{
    Error, Extent, NewTag, Pool, ProgressWatch, Result, Role, SpaceNeed, Tag, TagChange, TagKind, Zone,
};

/// Bytes of a block: the unit of the map. A crash never tears a block.
pub const BLOCK: u64 = 4096;
/// The largest size of a disk, in bytes.
pub const DISK_BYTES_MAX: u64 = (1 << 30) * BLOCK;

const THIN: u32 = 1;
const CHECKSUM: u32 = 2;

/// The parameters of a new disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Size in bytes, a multiple of the sector size.
    pub size: u64,
    /// Bytes of a sector: 512 or 4096.
    pub sector_bytes: u32,
    /// Allocate space at the first write of a block instead of at creation. A first write may then find the pool full.
    pub thin: bool,
    /// Keep a checksum of each block, so that a read of damaged data is an error. Checksums cannot be added later.
    pub checksum: bool,
}

/// The shape of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShape {
    /// Size in bytes.
    pub size: u64,
    /// Bytes of a sector: 512 or 4096.
    pub sector_bytes: u32,
    /// True if space is allocated at the first write of a block.
    pub thin: bool,
    /// True if each block has a checksum.
    pub checksum: bool,
    /// The number of blocks that the size needs.
    pub blocks: u64,
    /// The number of blocks beyond those, so that an overwrite always finds a free one. A thin disk keeps a chunk
    /// instead.
    pub spares: u64,
}

impl DiskShape {
    /// Returns the shape of a new disk.
    ///
    /// # Errors
    /// [`Error::Limit`], whose message names the possible values.
    pub fn of(spec: &DiskSpec) -> Result<Self> {
        let DiskSpec { size, sector_bytes, thin, checksum } = *spec;
        if sector_bytes != 512 && sector_bytes != 4096 {
            return Err(Error::Limit(format!("sectors of {sector_bytes} bytes are not possible: 512 or 4096")));
        }
        if size == 0 || size > DISK_BYTES_MAX || !size.is_multiple_of(sector_bytes.into()) {
            return Err(Error::Limit(format!(
                "a disk of {size} bytes is not possible: a multiple of {sector_bytes}, {} at most",
                ByteCount(DISK_BYTES_MAX)
            )));
        }
        let blocks = size.div_ceil(BLOCK);
        Ok(Self { size, sector_bytes, thin, checksum, blocks, spares: (blocks / 16).clamp(256, 16384) })
    }

    /// Returns the shape that `tag` records.
    ///
    /// # Errors
    /// [`Error::Limit`] if `tag` is not a disk, has a newer version, or is damaged.
    pub fn read(tag: &Tag) -> Result<Self> {
        let broken = |what: &str| Error::Limit(format!("the disk {:?} has {what}: run `ferrite pool check`", tag.name));
        if tag.kind != TagKind::DISK {
            return Err(Error::Limit(format!("{:?} is not a disk: its kind is {}", tag.name, tag.kind.name())));
        }
        let word = |at: usize| u64::from_le_bytes(tag.attributes[at..at + 8].try_into().expect("eight bytes"));
        let flags = (word(0) >> 32) as u32;
        let spec = DiskSpec {
            size: tag.size,
            sector_bytes: word(0) as u32,
            thin: flags & THIN != 0,
            checksum: flags & CHECKSUM != 0,
        };
        let shape = Self { spares: word(16), ..Self::of(&spec)? };
        if flags & !(THIN | CHECKSUM) != 0 || tag.attributes[24..].iter().any(|byte| *byte != 0) {
            return Err(broken("attributes of a newer version"));
        }
        if shape.blocks != word(8) || shape.spares > 1 << 30 {
            return Err(broken("attributes that contradict its size"));
        }
        let bytes = |role| tag.extents.iter().filter(|it| it.role == role).map(|it| it.span().len).sum::<u64>();
        if bytes(Role::MAP) < shape.blocks * 8 || (!shape.thin && bytes(Role::DATA) < shape.data_bytes()) {
            return Err(broken("less space than its size needs"));
        }
        // A block is found by its chunk: an extent of another kind, or too many, would reach the space of another tag.
        let in_chunks = tag.extents.iter().filter(|it| it.role == Role::DATA).all(|it| it.zone == Zone::Super);
        if !in_chunks || bytes(Role::DATA) > 2 * DISK_BYTES_MAX {
            return Err(broken("space of a kind that disks do not use"));
        }
        Ok(shape)
    }

    /// Returns the attributes that record the shape.
    pub fn attributes(&self) -> [u8; 64] {
        let mut attributes = [0; 64];
        attributes[..4].copy_from_slice(&self.sector_bytes.to_le_bytes());
        let flags = [(self.thin, THIN), (self.checksum, CHECKSUM)];
        let flags: u32 = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        attributes[4..8].copy_from_slice(&flags.to_le_bytes());
        attributes[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        attributes[16..24].copy_from_slice(&self.spares.to_le_bytes());
        attributes
    }

    /// Returns the bytes of the data stream of a disk that is not thin.
    pub fn data_bytes(&self) -> u64 {
        (self.blocks + self.spares) * BLOCK
    }

    /// Returns the number of whole chunks that a new disk takes. The rest of its space lies in pages of shared chunks.
    pub fn chunks(&self) -> u64 {
        let needs = self.needs(&[]).into_iter().filter(|need| need.zone == Zone::Super);
        needs.map(|need| need.bytes.div_ceil(CHUNK)).sum()
    }

    /// Returns the bytes of that rest.
    pub fn page_bytes(&self) -> u64 {
        let needs = self.needs(&[]).into_iter().filter(|need| need.zone == Zone::Normal);
        needs.map(|need| need.bytes.next_multiple_of(PAGE)).sum()
    }

    fn needs(&self, have: &[Extent]) -> Vec<SpaceNeed> {
        let missing = |role, wanted: u64| {
            let bytes = have.iter().filter(|it| it.role == role).map(|it| it.span().len).sum::<u64>();
            wanted.saturating_sub(bytes)
        };
        let map_bytes = missing(Role::MAP, self.blocks * 8);
        let data_bytes = missing(Role::DATA, if self.thin { CHUNK } else { self.data_bytes() });
        let map_zone = if map_bytes < CHUNK / 2 { Zone::Normal } else { Zone::Super };
        let needs = [
            SpaceNeed { role: Role::MAP, zone: map_zone, bytes: map_bytes },
            SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: data_bytes },
        ];
        needs.into_iter().filter(|need| need.bytes > 0).collect()
    }
}

/// Creates a disk that reads as zeros. The disk is durable on return, or does not exist.
///
/// # Errors
/// The errors of [`DiskShape::of`]; [`Error::Exists`] and [`Error::BadName`] for `name`; [`Error::Full`] if the pool
/// has no room for the disk.
pub fn create(pool: &Pool, name: &str, spec: &DiskSpec) -> Result<()> {
    create_watched(pool, name, spec, &mut |_| true)
}

/// Creates a disk as [`create`] does. `watch` is called while the host allocates its space, and may stop that.
///
/// # Errors
/// The errors of [`create`]; [`Error::Cancelled`] if `watch` returns false: the disk does not exist.
pub fn create_watched(pool: &Pool, name: &str, spec: &DiskSpec, watch: ProgressWatch<'_>) -> Result<()> {
    let shape = DiskShape::of(spec)?;
    let new = NewTag {
        name,
        kind: TagKind::DISK,
        size: shape.size,
        attributes: shape.attributes(),
        needs: &shape.needs(&[]),
    };
    pool.with_spare(|| pool.create_tag_watched(&new, watch, |extents| zero_maps(pool, extents))).map(drop)
}

/// Removes the disk called `name`, which is not open.
///
/// # Errors
/// [`Error::NotFound`]; the errors of [`DiskShape::read`] if the tag is not a sound disk.
pub fn remove(pool: &Pool, name: &str) -> Result<()> {
    let tag = pool.tag(name)?;
    DiskShape::read(&tag)?;
    pool.remove_tag(&tag)
}

/// Grows the disk of `tag` to `size` bytes; the new part reads as zeros. The change is durable on return, or not made.
/// No other thread changes the size, but the disk may have grown its space since `tag` was read. Other tags are not
/// asked for space: see [`Pool::with_spare`].
///
/// # Errors
/// [`Error::Limit`] if `size` is less than the disk has; the errors of [`DiskShape::of`]; [`Error::Full`] if the pool
/// has no room; [`Error::NotFound`] if the disk was removed.
pub fn resize(pool: &Pool, tag: &Tag, size: u64) -> Result<Arc<Tag>> {
    let tag = &*pool.tag_now(tag)?;
    let shape = grown(tag, size)?;
    let add = shape.needs(&tag.extents);
    let change = TagChange { size, attributes: shape.attributes(), add: &add, keep: &tag.extents };
    pool.change_tag(tag, &change, |extents| zero_maps(pool, extents))
}

/// Returns the shape of the disk of `tag` with `size` bytes.
pub(crate) fn grown(tag: &Tag, size: u64) -> Result<DiskShape> {
    let old = DiskShape::read(tag)?;
    if size < old.size {
        return Err(Error::Limit(format!(
            "{:?} has {} and can only grow: copy what you need to a smaller disk and remove this one",
            tag.name,
            ByteCount(old.size)
        )));
    }
    let wanted =
        DiskShape::of(&DiskSpec { size, sector_bytes: old.sector_bytes, thin: old.thin, checksum: old.checksum })?;
    Ok(DiskShape { spares: old.spares.max(wanted.spares), ..wanted })
}

fn zero_maps(pool: &Pool, extents: &[Extent]) -> Result<()> {
    for extent in extents.iter().filter(|extent| extent.role == Role::MAP) {
        pool.memory().zero(extent.span(), Scheme::Nt);
    }
    Ok(pool.memory().drain()?)
}
