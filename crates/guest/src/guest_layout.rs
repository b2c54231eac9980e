//! The layout of a guest in its tag, and on its disk.
//!
//! ```text
//! tag         kind 8   size: bytes of the guest
//! attributes  0 version u32   4 zeros   8 identity of the disk [16]   24 share (see `guest_share`)
//!             44 pending change (see `pending_change`)   56 zeros
//! DATA stream chunks of 2 MiB: the frames, of 4 KiB each
//! MAP stream  page 0: the header (see `guest_header`); then one word of 8 bytes a frame (see `frame_word`)
//!
//! disk        0 the guest's bytes   size: two pages with the stamp of the tie (`pool::disk_stamp`)
//! ```

use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Error, Result, Role, Stream, Tag};

use crate::GUEST_KIND;
use crate::frame_word::PAGES_MAX;
use crate::guest_share::{SHARE, ShareRecord};
use crate::pending_change::{PENDING, PendingChange};

/// The version of a new guest.
pub(crate) const VERSION: u32 = 2;
/// The version of a guest without a share.
pub(crate) const VERSION_FIXED: u32 = 1;
const IDENTITY: std::ops::Range<usize> = 8..24;

/// The sizes of a guest, and the identity of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestLayout {
    /// Bytes of the guest: whole pages.
    pub size: u64,
    /// Frames in the pool.
    pub frames: u64,
    /// The identity of the disk, which also starts the checksums of the guest's words.
    pub identity: [u8; 16],
    /// The change that a crash may have interrupted.
    pub(crate) pending: PendingChange,
}

impl GuestLayout {
    /// Returns the layout of a guest of `size` bytes with `pm_bytes` of the pool.
    ///
    /// # Errors
    /// [`Error::Limit`], whose message names the possible values.
    pub fn new(size: u64, pm_bytes: u64, identity: [u8; 16]) -> Result<Self> {
        if size == 0 || !size.is_multiple_of(PAGE) || size / PAGE > PAGES_MAX {
            return Err(Error::Limit(format!("a guest of {size} bytes is not possible: a multiple of {PAGE} bytes")));
        }
        if pm_bytes == 0 || !pm_bytes.is_multiple_of(CHUNK) || pm_bytes / PAGE > u64::from(u32::MAX) {
            return Err(Error::Limit(format!(
                "a guest with {pm_bytes} bytes of the pool is not possible: a multiple of {CHUNK} bytes"
            )));
        }
        Ok(Self { size, frames: pm_bytes / PAGE, identity, pending: PendingChange::None })
    }

    /// Returns the layout of the guest in `tag`.
    ///
    /// # Errors
    /// [`Error::WrongKind`], and [`Error::Limit`] for a tag of a newer version and for a damaged one.
    pub fn read(tag: &Tag) -> Result<Self> {
        tag.ensure_kind(GUEST_KIND)?;
        let damaged = |what: &str| Error::Limit(format!("the guest {:?} {what}: run `ferrite pool check`", tag.name));
        let attributes = &tag.attributes;
        let rest = match u32::from_le_bytes(*attributes.first_chunk().expect("four bytes")) {
            VERSION => PENDING.end,
            VERSION_FIXED => SHARE.start,
            _ => return Err(damaged("has a version that this program does not read")),
        };
        if attributes[4..IDENTITY.start].iter().chain(&attributes[rest..]).any(|byte| *byte != 0) {
            return Err(damaged("has attributes of a newer version"));
        }
        if ShareRecord::read(tag).is_none() {
            return Err(damaged("has a share that no guest has"));
        }
        let pending = PendingChange::read(attributes).ok_or_else(|| damaged("has attributes of a newer version"))?;
        let bytes = |role| Stream::new(&tag.extents, role).len();
        let identity = attributes[IDENTITY].try_into().expect("sixteen bytes");
        let layout = Self::new(tag.size, bytes(Role::DATA), identity).map_err(|_| damaged("has sizes no guest has"))?;
        if bytes(Role::MAP) < layout.map_bytes() {
            return Err(damaged("has less space than its frames need"));
        }
        Ok(Self { pending, ..layout })
    }

    /// Returns the attributes of the tag of a guest with the share in `record`.
    pub(crate) fn attributes(&self, record: &ShareRecord) -> [u8; 64] {
        let mut attributes = [0; 64];
        attributes[..4].copy_from_slice(&VERSION.to_le_bytes());
        attributes[IDENTITY].copy_from_slice(&self.identity);
        record.write(&mut attributes);
        self.pending.write(&mut attributes);
        attributes
    }

    /// Returns the bytes of the DATA stream.
    pub fn data_bytes(&self) -> u64 {
        self.frames * PAGE
    }

    /// Returns the bytes of the MAP stream.
    pub fn map_bytes(&self) -> u64 {
        PAGE + (self.frames * 8).next_multiple_of(PAGE)
    }

    /// Returns the number of the guest's pages.
    pub fn pages(&self) -> u64 {
        self.size / PAGE
    }

    /// Returns the bytes that the disk has at least.
    pub fn disk_bytes(&self) -> u64 {
        self.size + DISK_STAMP_BYTES
    }

    /// Returns the start of the checksums of the guest's words.
    pub(crate) fn salt(&self) -> u32 {
        u32::from_le_bytes(*self.identity.first_chunk().expect("four bytes"))
    }
}

#[cfg(test)]
mod tests;
