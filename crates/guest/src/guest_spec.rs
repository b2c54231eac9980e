//! New guests, and the end of a guest.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_memory::{Scheme, Span};
use ferrite_pool::disk_stamp::{DISK_STAMP_BYTES, DiskStamp};
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::Generation;
use ferrite_pool::{NewTag, Pool, Role, SpaceNeed, Stream, Tag, Zone};

use crate::frame_space::FrameSpace;
use crate::frame_table::FrameTable;
use crate::guest_engine::GuestEngine;
use crate::guest_header::{GuestHeader, ensure_fits};
use crate::guest_layout::GuestLayout;
use crate::guest_share::{GuestShare, SetBudget, ShareRecord};
use crate::guest_tie::read_stamp;
use crate::{DirectPlane, GUEST_KIND, GuestError, Result};

/// A new guest.
pub struct GuestSpec {
    /// The name of the tag.
    pub name: String,
    /// The bytes of the guest.
    pub size: u64,
    /// The bytes of the pool that hold its hot pages.
    pub pm_bytes: u64,
    /// The memory that it may have.
    pub share: GuestShare,
    /// The budget of the pool's guests.
    pub(crate) budget: SetBudget,
    /// The address by which the disk is found again.
    pub address: String,
    /// A random identity of the disk.
    pub identity: [u8; 16],
    /// A random number.
    pub nonce: u16,
}

impl GuestSpec {
    /// Creates the guest in `pool` with the content of `disk`. Durable on return. A crash leaves the guest or nothing,
    /// and maybe a stamp on the disk.
    ///
    /// # Errors
    /// [`GuestError::Refused`] if the disk does not fit or belongs to a guest, and the errors of pool and disk.
    pub fn create(&self, pool: &Arc<Pool>, disk: &Arc<dyn Disk>) -> Result<()> {
        let layout = GuestLayout::new(self.size, self.pm_bytes, self.identity)?;
        ensure_fits(&self.address)?;
        self.share.ensure_possible()?;
        let has = disk.geometry().size;
        if has < layout.disk_bytes() {
            return Err(GuestError::Refused(format!(
                "{} has {has} bytes: a guest of {} bytes needs {}, the last {DISK_STAMP_BYTES} for its stamp",
                self.address,
                self.size,
                layout.disk_bytes()
            )));
        }
        ensure_no_stamp(&**disk, &layout, &self.address)?;
        let tag = self.create_tag(pool, &layout)?;
        let nonce = self.nonce;
        let opened = GuestEngine::open(pool, &self.name, Arc::clone(disk), Box::new(DirectPlane), move || nonce);
        if let Err(error) = opened {
            pool.remove_tag(&tag)?;
            return Err(error);
        }
        Ok(())
    }

    fn create_tag(&self, pool: &Pool, layout: &GuestLayout) -> Result<Arc<Tag>> {
        let needs = [
            SpaceNeed { role: Role::MAP, zone: Zone::Normal, bytes: layout.map_bytes() },
            SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: layout.data_bytes() },
        ];
        let attributes = layout.attributes(&ShareRecord { share: self.share, budget: self.budget });
        let new = NewTag { name: &self.name, kind: GUEST_KIND, size: self.size, attributes, needs: &needs };
        let made = pool.with_spare(|| {
            pool.create_tag(&new, |extents| {
                let (memory, map) = (pool.memory(), Stream::new(extents, Role::MAP));
                map.runs(Span::new(0, map.len())).for_each(|run| memory.zero(run, Scheme::Nt));
                let at = map.locate(0).expect("a page was asked for").at;
                let header = GuestHeader { memory, at, salt: layout.salt() };
                header.store_new(Generation::first(self.nonce), &self.address);
                Ok(memory.drain()?)
            })
        });
        Ok(made?)
    }
}

/// Refuses a disk with data where the stamp goes.
pub(crate) fn ensure_no_stamp(disk: &dyn Disk, layout: &GuestLayout, address: &str) -> Result<()> {
    let mut bytes = vec![0; DISK_STAMP_BYTES as usize];
    disk.read(layout.size, &mut bytes)?;
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let what = match read_stamp(disk, layout)? {
        Some(_) => "the stamp of a guest: remove that guest, or use another disk",
        None => "data, which the stamp of the guest would overwrite: use a larger disk",
    };
    Err(GuestError::Refused(format!("{address} has at byte {} {what}", layout.size)))
}

/// Returns the address of the disk of the guest in `tag`, or `None` if it is damaged.
pub(crate) fn disk_address(pool: &Pool, tag: &Tag) -> Option<String> {
    let layout = GuestLayout::read(tag).ok()?;
    let at = Stream::new(&tag.extents, Role::MAP).locate(0)?.at;
    GuestHeader { memory: pool.memory(), at, salt: layout.salt() }.address()
}

/// Returns the bytes that the pool alone has of the guest called `name`, which is not open.
///
/// # Errors
/// [`GuestError::Damaged`], and the errors of the pool.
pub(crate) fn truth_bytes(pool: &Arc<Pool>, name: &str) -> Result<u64> {
    let space = FrameSpace::of(pool.hold(name)?)?;
    Ok(FrameTable::recover(&space)?.truths() as u64 * PAGE)
}

/// Erases the stamp of the guest in `tag` from `disk`, if the disk has it. Durable on return.
///
/// # Errors
/// The errors of the disk.
pub(crate) fn erase_stamp(pool: &Pool, tag: &Tag, disk: &dyn Disk) -> Result<()> {
    let layout = GuestLayout::read(tag)?;
    if disk.geometry().size < layout.disk_bytes() {
        return Ok(());
    }
    let is_ours = |stamp: DiskStamp| stamp.record.pool == pool.superblock().uuid && stamp.tag == tag.generation;
    if read_stamp(disk, &layout)?.is_some_and(is_ours) {
        DiskStamp::erase(disk, layout.size)?;
    }
    Ok(())
}
