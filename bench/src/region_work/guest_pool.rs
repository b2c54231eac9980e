//! Pools in memory with new guests, whose disks are files on this machine's disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_guest::{GuestDiskPlace, GuestRequest, GuestService, PmRange};
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_owner::{PoolAccess, PoolOwner, ServiceRegistry, ServiceRequest, machine};
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Format, Pool};

use super::region_load::LoadShape;
use super::region_order::{RegionKind, RegionSetup};
use crate::media::disks::own_folder;
use crate::scratch::Scratch;
use crate::{Error, Result};

/// Bytes of a pool beside the frames of its guests.
const REST_BYTES: u64 = 32 << 20;
const OWNER: &str = "the owner of the pool";

/// A guest to make.
#[derive(Clone, Debug)]
pub struct BenchGuest {
    /// The name.
    pub name: String,
    /// The bytes of the guest.
    pub size: u64,
    /// The bytes of the pool that hold its pages.
    pub pm_bytes: u64,
}

/// Returns the bytes of frames for `percent` of a guest of `size` bytes. All memory is more than the guest's size, because
/// an engine keeps a part of its frames free.
pub fn frames_bytes(size: u64, percent: u64) -> u64 {
    if percent >= 100 {
        return (size + size / 8).next_multiple_of(CHUNK);
    }
    ((size * percent / 100 + CHUNK / 2) / CHUNK).max(1) * CHUNK
}

/// A pool with guests. Its files are removed when this is dropped.
pub struct GuestPool {
    /// The owner, while this process is that.
    access: Option<PoolAccess>,
    memory: Scratch,
    disks: Scratch,
}

impl GuestPool {
    /// Makes a pool in `place` with `guests`, which this process owns.
    ///
    /// # Errors
    /// The errors of the pool, and of this machine's disk.
    pub fn new(place: &Path, guests: &[BenchGuest]) -> Result<Self> {
        let (memory, disks) = (Scratch::new(place)?, own_folder()?);
        // The usual budget of guests is half of what the pool has.
        let frames: u64 = guests.iter().map(|guest| guest.pm_bytes).sum();
        let file = memory.file("pool", 2 * frames + REST_BYTES)?;
        let mapped = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() })?;
        let identity = || machine::random_uuid().map_err(Error::io("drawing an identity"));
        let boot_id = machine::boot_id().map_err(Error::io("reading the identity of this boot"))?;
        Pool::create(&mapped, &Format { uuid: identity()?, boot_id })?;
        drop(mapped);
        let registry = Arc::new(ServiceRegistry::default().with(GuestService::of_files()));
        let access = PoolAccess::open(&memory.path("pool"), &registry, None).map_err(of_owner)?;
        let mut made = Self { access: Some(access), memory, disks };
        guests.iter().try_for_each(|guest| made.create(guest))?;
        Ok(made)
    }

    fn create(&mut self, guest: &BenchGuest) -> Result<()> {
        self.disks.file(&guest.name, guest.size + DISK_STAMP_BYTES)?;
        let disk = GuestDiskPlace { address: self.disk(&guest.name).display().to_string(), path: PathBuf::new() };
        let pm = Some(PmRange::fixed(guest.pm_bytes));
        let request = GuestRequest::Create { name: guest.name.clone(), size: guest.size, pm, weight: None, disk };
        let access = self.access.as_mut().expect("this process owns the pool");
        access.call(ServiceRequest::of(&request), &mut |_| true).map(drop).map_err(of_owner)
    }

    fn disk(&self, name: &str) -> PathBuf {
        self.disks.path(name)
    }

    /// Closes the pool, for a worker that owns it.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn release(&mut self) -> Result<()> {
        match self.access.take() {
            Some(PoolAccess::Owner(owner)) => {
                Arc::into_inner(owner).map_or(Ok(true), PoolOwner::close).map(drop).map_err(of_owner)
            }
            _ => Ok(()),
        }
    }

    /// Returns the region of the guest `name` with `size` bytes, for the load of `load`.
    pub fn setup(&self, kind: RegionKind, guest: &BenchGuest, load: LoadShape) -> RegionSetup {
        RegionSetup {
            kind,
            path: self.memory.path("pool"),
            disk: self.disk(&guest.name),
            name: guest.name.clone(),
            is_lent: self.access.is_some(),
            size: guest.size,
            write_times: 1.0,
            has_batches: true,
            keeps_copies: true,
            load,
        }
    }
}

impl Drop for GuestPool {
    fn drop(&mut self) {
        // The files are removed with the pool, so a pool that does not close loses nothing.
        let _ = self.release();
    }
}

fn of_owner(error: ferrite_owner::Error) -> Error {
    Error::server(OWNER, error.to_string())
}

/// A mapped file of `size` bytes, in memory at `place` or on this machine's disk.
pub struct MappedPeer {
    folder: Scratch,
    kind: RegionKind,
    size: u64,
}

impl MappedPeer {
    /// Makes the file: on the disk if the region is synced, else in `place`.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    pub fn new(place: &Path, kind: RegionKind, size: u64) -> Result<Self> {
        let folder = if kind == RegionKind::FileSync { own_folder()? } else { Scratch::new(place)? };
        folder.file("mapped", size)?;
        Ok(Self { folder, kind, size })
    }

    /// Returns the region for the load of `load`.
    pub fn setup(&self, load: LoadShape) -> RegionSetup {
        RegionSetup {
            kind: self.kind,
            path: self.folder.path("mapped"),
            disk: PathBuf::new(),
            name: String::new(),
            is_lent: false,
            size: self.size,
            write_times: 1.0,
            has_batches: true,
            keeps_copies: true,
            load,
        }
    }
}
