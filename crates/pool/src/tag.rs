//! A tag: a name in the pool, and its kind, size, attributes and space.
//!
//! ```text
//! slot      0 crc u32    4 kind u16    6 name_len u16   8 size u64   16 generation u64   24 overflow u64
//!           32 extents u32   36 reserved u32   40 reserved u64   48 attributes [64]   112 extent[8]   240 name [256]
//!           496 reserved [16]
//! extent    0 page u64   8 pages u32   12 role u8   13 zone u8   14 reserved [2]
//! overflow  0 crc u32    4 extents u32   8 next u64   16 reserved [16]   32 extent[254]
//! ```
//!
//! A slot of zeros is free. The crc covers the rest of the slot or page. Overflow pages do not change once a slot
//! refers to them.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::bounds::SERIAL_BOUND;
use crate::extent::{Extent, ExtentMedia};
use crate::layout::PAGE;
use crate::{Error, Result};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 512;
/// Extents that fit the slot.
pub const INLINE: usize = 8;
/// Extents that fit an overflow page.
pub const OVERFLOW: usize = 254;

/// The kind of a tag. Each service has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TagKind(pub u16);

impl TagKind {
    /// Plain bytes, as `ferrite tag put` stores them.
    pub const BYTES: Self = Self(1);
    /// A block device.
    pub const DISK: Self = Self(2);
    /// A log.
    pub const LOG: Self = Self(3);
    /// A file system.
    pub const FILES: Self = Self(4);
    /// A named object, which a program stores.
    pub const OBJECT: Self = Self(5);
    /// The log files of a database whose pages are outside the pool.
    pub const DATABASE: Self = Self(6);
    /// A cache of SSDs before disks.
    pub const CACHE: Self = Self(7);
    /// A guest: virtual persistent memory.
    pub const GUEST: Self = Self(8);

    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::BYTES => "bytes",
            Self::DISK => "disk",
            Self::LOG => "log",
            Self::FILES => "file system",
            Self::OBJECT => "object",
            Self::DATABASE => "database",
            Self::CACHE => "cache",
            Self::GUEST => "guest",
            _ => "unknown",
        }
    }

    /// Returns true for the kinds that [`TagKind::name`] has a name for.
    pub fn is_known(self) -> bool {
        (Self::BYTES..=Self::GUEST).contains(&self)
    }
}

/// The state of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The name, unique in the pool.
    pub name: String,
    /// The kind of the tag.
    pub kind: TagKind,
    /// The size in bytes that users of the tag see.
    pub size: u64,
    /// The generation, never used twice in a pool. It distinguishes a tag from an earlier one of the same name.
    pub generation: u64,
    /// The attributes of the tag's service.
    pub attributes: [u8; 64],
    /// The space of the tag.
    pub extents: Vec<Extent>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TagSlot {
    crc: U32,
    kind: U16,
    name_len: U16,
    size: U64,
    generation: U64,
    overflow: U64,
    extents: U32,
    reserved: U32,
    reserved2: U64,
    attributes: [u8; 64],
    inline: [ExtentMedia; INLINE],
    name: [u8; 256],
    reserved3: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct OverflowPage {
    crc: U32,
    extents: U32,
    next: U64,
    reserved: [u8; 16],
    extent: [ExtentMedia; OVERFLOW],
}

const _: () = assert!(size_of::<TagSlot>() == SLOT_BYTES);
const _: () = assert!(size_of::<OverflowPage>() == PAGE as usize);

/// A slot that verified, without its overflow pages.
#[derive(Debug)]
pub struct DecodedTag {
    /// The tag, with the extents in the slot only.
    pub tag: Tag,
    /// Byte offset of the first overflow page, or 0.
    pub overflow: u64,
    /// The number of extents, those in overflow pages included.
    pub extents: usize,
}

/// Refuses a string that cannot be a name.
///
/// # Errors
/// [`Error::BadName`] for such a string.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
        return Err(Error::BadName(name.into()));
    }
    Ok(())
}

/// Decodes the slot at byte `at` of a pool of `pages` pages; returns `None` if it is free. `bytes` may be anything.
///
/// # Errors
/// [`Error::Corrupt`] for bytes that this program cannot have written.
pub fn decode_slot(bytes: &[u8; SLOT_BYTES], at: u64, pages: u64) -> Result<Option<DecodedTag>> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let corrupt = |what: &str| Error::corrupt(format!("the tag slot ({what})"), at);
    let slot = TagSlot::read_from_bytes(bytes).expect("the size is the type's");
    if crc32fast::hash(&bytes[4..]) != slot.crc.get() {
        return Err(corrupt("checksum"));
    }
    let name = slot.name.get(..slot.name_len.get().into()).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.filter(|name| check_name(name).is_ok()).ok_or_else(|| corrupt("name"))?;
    let extents = slot.extents.get() as usize;
    if extents as u64 > pages {
        return Err(corrupt("number of extents"));
    }
    if slot.generation.get() >= SERIAL_BOUND {
        return Err(corrupt("generation"));
    }
    let inline = slot.inline.iter().take(extents.min(INLINE)).map(|media| media.extent(pages));
    let tag = Tag {
        name: name.into(),
        kind: TagKind(slot.kind.get()),
        size: slot.size.get(),
        generation: slot.generation.get(),
        attributes: slot.attributes,
        extents: inline.collect::<Option<_>>().ok_or_else(|| corrupt("extent"))?,
    };
    Ok(Some(DecodedTag { tag, overflow: slot.overflow.get(), extents }))
}

/// Returns the name that a damaged slot seems to have.
pub(crate) fn name_of(bytes: &[u8; SLOT_BYTES]) -> Option<String> {
    let slot = TagSlot::read_from_bytes(bytes).expect("the size is the type's");
    let name = std::str::from_utf8(slot.name.get(..slot.name_len.get().into())?).ok()?;
    check_name(name).is_ok().then(|| name.into())
}

/// Decodes the overflow page at byte `at`; returns its extents and the next page. `bytes` may be anything.
///
/// # Errors
/// [`Error::Corrupt`] for bytes that this program cannot have written.
pub fn decode_overflow(bytes: &[u8], at: u64, pages: u64) -> Result<(Vec<Extent>, u64)> {
    let corrupt = |what: &str| Error::corrupt(format!("the page of extents ({what})"), at);
    let page = OverflowPage::read_from_bytes(bytes).map_err(|_| corrupt("length"))?;
    if crc32fast::hash(&bytes[4..]) != page.crc.get() {
        return Err(corrupt("checksum"));
    }
    if !(1..=OVERFLOW).contains(&(page.extents.get() as usize)) {
        return Err(corrupt("number of extents"));
    }
    let listed = page.extent.iter().take(page.extents.get() as usize).map(|media| media.extent(pages));
    Ok((listed.collect::<Option<_>>().ok_or_else(|| corrupt("extent"))?, page.next.get()))
}

impl Tag {
    /// Refuses a tag of another kind.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for such a tag.
    pub fn ensure_kind(&self, wanted: TagKind) -> Result<()> {
        if self.kind == wanted {
            return Ok(());
        }
        Err(Error::WrongKind { name: self.name.clone(), found: self.kind.name(), wanted: wanted.name() })
    }

    /// Returns the extents that do not fit the slot.
    pub(crate) fn rest(&self) -> &[Extent] {
        self.extents.get(INLINE..).unwrap_or_default()
    }

    /// Returns the bytes of the slot, with the overflow pages at `overflow`.
    pub(crate) fn encode_slot(&self, overflow: u64) -> [u8; SLOT_BYTES] {
        let mut slot = TagSlot::new_zeroed();
        slot.kind = self.kind.0.into();
        slot.name_len = (self.name.len() as u16).into();
        slot.size = self.size.into();
        slot.generation = self.generation.into();
        slot.overflow = overflow.into();
        slot.extents = (self.extents.len() as u32).into();
        slot.attributes = self.attributes;
        for (media, extent) in slot.inline.iter_mut().zip(&self.extents) {
            *media = (*extent).into();
        }
        slot.name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        slot.crc = crc32fast::hash(&slot.as_bytes()[4..]).into();
        zerocopy::transmute!(slot)
    }
}

/// Returns the bytes of the overflow pages for `rest`, which will be stored at `places`.
pub(crate) fn encode_overflow(rest: &[Extent], places: &[u64]) -> Vec<Vec<u8>> {
    let pages = rest.chunks(OVERFLOW).enumerate().map(|(i, extents)| {
        let mut page = OverflowPage::new_zeroed();
        page.extents = (extents.len() as u32).into();
        page.next = places.get(i + 1).copied().unwrap_or(0).into();
        for (media, extent) in page.extent.iter_mut().zip(extents) {
            *media = (*extent).into();
        }
        page.crc = crc32fast::hash(&page.as_bytes()[4..]).into();
        page.as_bytes().to_vec()
    });
    pages.collect()
}

#[cfg(test)]
mod tests;
