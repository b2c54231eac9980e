//! The layout of a cache in its tag, and of a LEB on an SSD.
//!
//! ```text
//! tag         kind 7   size: bytes of the buffers
//! attributes  0 version u32   4 leb_bytes u32   8 buffers u32   12 tables u32 at the creation   16 zeros
//! MAP stream  chunks of 2 MiB: chunk 0 has two configuration slots of 256 KiB (see `cache_config`) and no table;
//!             each later chunk has as many tables as fit (see `leb_table`)
//! DATA stream buffers (see `write_buffer`)
//!
//! LEB 0 of an SSD   the stamp (see `member_stamp`)
//! LEB n             header pages (a copy of the table at the seal), then the data pages
//! ```
//!
//! LEB stands for logical erase block, the unit in which an SSD is written: whole, once, in one sequential request.

use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Error, Result, Role, Stream, Tag};

use crate::CACHE_KIND;

/// Bytes of a block of a disk, of a slot and of a page of a LEB.
pub const BLOCK: u64 = PAGE;
/// Bytes of the head of a table and of the head of a buffer.
pub(crate) const HEAD: u64 = 64;
/// Bytes of a slot's header.
pub(crate) const SLOT_HEADER: u64 = 64;
/// Bytes of a configuration slot.
pub(crate) const CONFIG_SLOT: u64 = 256 << 10;
/// Bytes of a table for each page: its word and its sum.
const PAGE_ENTRY: u64 = 12;
const VERSION: u32 = 1;

/// The smallest number of LEBs of an SSD, with the one of its stamp.
pub const LEBS_MIN: u64 = 16;
/// The largest number of LEBs of an SSD: what a place in a table names.
pub const LEBS_MAX: u64 = 1 << 22;
/// The largest number of SSDs that a cache ever has: what a place in a table names.
pub const SSDS_MAX: usize = 15;
/// The largest number of disks of a cache.
pub const DISKS_MAX: usize = 64;
/// The largest number of pages that all tables of a cache describe.
const PAGES_MAX: u64 = 1 << 31;

/// The sizes of a cache, which stay as long as it lives; only the number of tables grows, and the configuration has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLayout {
    /// Bytes of a LEB, a power of two.
    pub leb_bytes: u32,
    /// Number of buffers.
    pub buffers: u32,
    /// Number of tables.
    pub tables: u32,
}

impl CacheLayout {
    /// Returns the layout with these numbers.
    ///
    /// # Errors
    /// [`Error::Limit`], whose message names the possible values.
    pub fn new(leb_bytes: u64, buffers: u64, tables: u64) -> Result<Self> {
        let limit = |what: String| Err(Error::Limit(what));
        if !leb_bytes.is_power_of_two() || !(16 << 10..=8 << 20).contains(&leb_bytes) {
            return limit(format!("LEBs of {leb_bytes} bytes are not possible: a power of two from 16 KiB to 8 MiB"));
        }
        if !(4..=1 << 16).contains(&buffers) {
            return limit(format!("{buffers} buffers are not possible: from 4 to 65536 LEBs"));
        }
        let layout = Self { leb_bytes: leb_bytes as u32, buffers: buffers as u32, tables: tables as u32 };
        let pages = tables.checked_mul(layout.pages().into()).filter(|pages| *pages <= PAGES_MAX);
        match pages {
            Some(_) => Ok(layout),
            None => limit(format!("{tables} LEBs of {leb_bytes} bytes are too many for one cache: use larger LEBs")),
        }
    }

    /// Returns the layout that the attributes of `tag` record.
    ///
    /// # Errors
    /// [`Error::WrongKind`], and [`Error::Limit`] for a tag of a newer version and for a damaged one.
    pub fn read(tag: &Tag) -> Result<Self> {
        tag.ensure_kind(CACHE_KIND)?;
        let number = |at: usize| u32::from_le_bytes(tag.attributes[at..at + 4].try_into().expect("four bytes"));
        let damaged = |what: &str| Error::Limit(format!("the cache {:?} {what}: run `ferrite pool check`", tag.name));
        if number(0) != VERSION {
            return Err(damaged("has a version that this program does not read"));
        }
        if tag.attributes[16..].iter().any(|byte| *byte != 0) {
            return Err(damaged("has attributes of a newer version"));
        }
        let layout = Self::new(number(4).into(), number(8).into(), number(12).into())
            .map_err(|_| damaged("has attributes that no cache has"))?;
        let bytes = |role| Stream::new(&tag.extents, role).len();
        let (map, data) = (bytes(Role::MAP), bytes(Role::DATA));
        if map < layout.map_bytes() || data < layout.data_bytes() {
            return Err(damaged("has less space than its attributes say"));
        }
        Ok(layout)
    }

    /// Returns the attributes that record the layout.
    pub fn attributes(&self) -> [u8; 64] {
        let mut attributes = [0; 64];
        let numbers = [VERSION, self.leb_bytes, self.buffers, self.tables];
        attributes.as_chunks_mut::<4>().0.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
        attributes
    }

    /// Returns the number of header pages of a LEB.
    pub fn header_pages(&self) -> u32 {
        let all = self.leb_bytes / BLOCK as u32;
        let fits = |headers: &u32| HEAD + PAGE_ENTRY * u64::from(all - headers) <= BLOCK * u64::from(*headers);
        (1..all).find(fits).expect("a header is smaller than its pages")
    }

    /// Returns the number of data pages of a LEB, which is the number of slots of a buffer.
    pub fn pages(&self) -> u32 {
        self.leb_bytes / BLOCK as u32 - self.header_pages()
    }

    /// Returns the bytes of a table.
    pub fn table_bytes(&self) -> u64 {
        (HEAD + PAGE_ENTRY * u64::from(self.pages())).next_multiple_of(HEAD)
    }

    /// Returns the number of tables in a chunk of the MAP stream.
    pub fn tables_per_chunk(&self) -> u64 {
        CHUNK / self.table_bytes()
    }

    /// Returns the bytes of the MAP stream.
    pub fn map_bytes(&self) -> u64 {
        (1 + u64::from(self.tables).div_ceil(self.tables_per_chunk())) * CHUNK
    }

    /// Returns the bytes of the head and the slot headers of a buffer.
    pub fn buffer_header_bytes(&self) -> u64 {
        (HEAD + SLOT_HEADER * u64::from(self.pages())).next_multiple_of(BLOCK)
    }

    /// Returns the bytes of a buffer.
    pub fn buffer_bytes(&self) -> u64 {
        self.buffer_header_bytes() + BLOCK * u64::from(self.pages())
    }

    /// Returns the bytes of the DATA stream.
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.buffers) * self.buffer_bytes()
    }

    /// Returns where data page `page` lies in LEB `leb` of an SSD, in bytes.
    pub fn page_in_ssd(&self, leb: u32, page: u32) -> u64 {
        u64::from(leb) * u64::from(self.leb_bytes) + BLOCK * u64::from(self.header_pages() + page)
    }
}

#[cfg(test)]
mod tests;
