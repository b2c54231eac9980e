//! The backing of a mapping, found by asking the kernel.
#![allow(unsafe_code, reason = "asks the kernel what a mapping is")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::ptr;

use crate::provenance::System;
use crate::{Error, Result, Survival};

/// The storage behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Memory without a page cache: a device DAX node, or a file that the kernel maps with `MAP_SYNC`. Not every such
    /// memory is persistent.
    Dax,
    /// Huge pages of a hugetlbfs file.
    Hugetlb,
    /// A tmpfs file.
    Shm,
    /// Any other file, through the page cache.
    File,
    /// A memfd, for tests: gone with the process.
    Anon,
}

/// A file and the way to map it.
pub(crate) struct FoundBacking {
    pub backing: Backing,
    /// Bytes the file has.
    pub size: u64,
    /// Unit it can be mapped in, in bytes.
    pub unit_bytes: u64,
    /// Flags for `mmap`.
    pub flags: i32,
}

const SMALL: u64 = 4096;
const DEVICE_DAX_UNIT: u64 = 2 << 20;
const SYNCHRONOUS: i32 = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;

impl Backing {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dax => "dax",
            Self::Hugetlb => "hugetlb",
            Self::Shm => "shm",
            Self::File => "file",
            Self::Anon => "anon",
        }
    }

    /// Whether a fence is all that a store waits for. Only a file has a host that holds bytes back.
    pub fn fence_is_durable(self) -> bool {
        self != Self::File
    }
}

pub(crate) fn find(file: &File) -> Result<FoundBacking> {
    let about = file.metadata().map_err(|why| Error::io("asking for the pool's size", why))?;
    if about.file_type().is_char_device() {
        let size = device_dax_size(about.rdev())?;
        return Ok(FoundBacking { backing: Backing::Dax, size, unit_bytes: DEVICE_DAX_UNIT, flags: libc::MAP_SHARED });
    }
    if !about.is_file() {
        return Err(Error::Unsupported("a pool is a regular file or a device DAX node".into()));
    }
    let host = file_system(file)?;
    let (backing, unit_bytes) = match host.f_type {
        libc::HUGETLBFS_MAGIC => (Backing::Hugetlb, host.f_bsize as u64),
        libc::TMPFS_MAGIC => (Backing::Shm, SMALL),
        _ if maps_synchronously(file, about.size()) => (Backing::Dax, SMALL),
        _ => (Backing::File, SMALL),
    };
    let flags = if backing == Backing::Dax { SYNCHRONOUS } else { libc::MAP_SHARED };
    Ok(FoundBacking { backing, size: about.size(), unit_bytes, flags })
}

/// Returns which failures `file` survives, by where it lies now. It is a file, a device DAX node or a block device.
pub fn survival(file: &File) -> Survival {
    let system = System::new(Path::new("/"));
    match file.metadata() {
        Ok(about) if about.file_type().is_char_device() => {
            system.device_dax(libc::major(about.rdev()), libc::minor(about.rdev()))
        }
        Ok(about) if about.file_type().is_block_device() => {
            system.block_device(libc::major(about.rdev()), libc::minor(about.rdev()))
        }
        _ => system.file(mount_of(file)),
    }
}

/// The number of the mount through which `file` was opened.
fn mount_of(file: &File) -> Option<u64> {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Bytes of `file` that have no storage yet, and those that its host has left for all its files. `None` where it has
/// all, or the host knows no limit.
pub(super) fn room(file: &File, backing: Backing) -> Result<Option<(u64, u64)>> {
    let about = file.metadata().map_err(|why| Error::io("asking for the pool's size", why))?;
    // Huge pages are promised when they are mapped.
    if !about.is_file() || backing == Backing::Hugetlb {
        return Ok(None);
    }
    let host = file_system(file)?;
    let lacked = about.size().saturating_sub(about.blocks() * 512);
    Ok((host.f_blocks > 0).then(|| (lacked, host.f_bavail * host.f_bsize as u64)))
}

fn file_system(file: &File) -> Result<libc::statfs> {
    // SAFETY: all zeros is a valid value of this plain struct of integers.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the struct is ours to fill.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &mut about) } != 0 {
        return Err(Error::last_os("asking for the pool's file system"));
    }
    Ok(about)
}

/// The kernel refuses `MAP_SYNC` for all that is not persistent memory.
fn maps_synchronously(file: &File, size: u64) -> bool {
    if size < SMALL {
        return false;
    }
    // SAFETY: a new mapping at an address of the kernel's choice, undone at once.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), SMALL as usize, libc::PROT_READ, SYNCHRONOUS, file.as_raw_fd(), 0);
        page != libc::MAP_FAILED && libc::munmap(page, SMALL as usize) == 0
    }
}

fn device_dax_size(device: u64) -> Result<u64> {
    let path = format!("/sys/dev/char/{}:{}/size", libc::major(device), libc::minor(device));
    let text = std::fs::read_to_string(&path)
        .map_err(|why| Error::io(format!("reading {path} (a pool's character device must be device DAX)"), why))?;
    text.trim().parse().map_err(|_| Error::io(format!("reading {path}"), io::Error::from(io::ErrorKind::InvalidData)))
}
