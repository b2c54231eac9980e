//! What makes a host's promise hold where it writes elsewhere than over what is there. On such a file system what is
//! stored over a block that a copy shares needs a new one, which a full host has not.
#![allow(unsafe_code, reason = "ioctls about a file's flags and extents")]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::length::set_len;
use super::space::{allocate, is_unsupported};
use crate::{Error, Result, Span};

/// Of linux/fs.h: compressed, and written in place. Only an empty file can change in this.
const FS_COMPR_FL: libc::c_int = 0x4;
const FS_NOCOW_FL: libc::c_int = 0x80_0000;

/// Of linux/fiemap.h.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
const FIEMAP_EXTENT_SHARED: u32 = 0x2000;
/// Extents asked about at once.
const EXTENTS: usize = 256;

/// `struct fiemap`, with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    len: u64,
    flags: u32,
    found: u32,
    room: u32,
    reserved: u32,
    extents: [FileExtent; EXTENTS],
}

/// `struct fiemap_extent`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FileExtent {
    at: u64,
    physical: u64,
    len: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// Creates a file of `bytes` for a pool, which only its user can open. Nothing is left of a file that cannot be made. A
/// file system that would write elsewhere is asked to write in place.
///
/// # Errors
/// The system's error.
pub fn make_pool_file(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    write_in_place(&file);
    set_len(&file, bytes).inspect_err(|_| _ = fs::remove_file(path))
}

/// Turns compression off, because compressed data is never written in place.
fn write_in_place(file: &File) {
    let mut flags: libc::c_int = 0;
    // SAFETY: the call fills our integer; the kernel means an int, whatever the number of the call says.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) } == 0 {
        let flags = flags & !FS_COMPR_FL | FS_NOCOW_FL;
        // SAFETY: the call reads our integer. It refuses what the file system does not know, and nothing is changed then.
        unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) };
    }
}

/// Makes all that is stored in `file` its own, as far as its file system can: what a copy shares with it is copied. Its
/// bytes stay, and its holes.
///
/// # Errors
/// [`Error::NoSpace`] where the host has no space for that, [`Error::Io`] where it fails.
pub fn own_storage(file: &File, name: &str) -> Result<()> {
    for run in shared_runs(file) {
        match allocate(file, libc::FALLOC_FL_UNSHARE_RANGE | libc::FALLOC_FL_KEEP_SIZE, run) {
            Err(why) if is_unsupported(&why) => return Ok(()),
            done => done.map_err(|why| {
                let what = "its own, which a copy or a snapshot shares: free as much on its host, or remove that";
                Error::io(format!("making {} bytes at {} of {name} {what}", run.len, run.at), why)
            })?,
        }
    }
    Ok(())
}

/// Returns the runs of `file` without a hole in which some bytes are shared. Holes would be filled, and each call waits
/// for the host's disk. Returns none if the file system does not report them.
fn shared_runs(file: &File) -> Vec<Span> {
    let mut runs: Vec<(Span, bool)> = Vec::new();
    let mut at = 0;
    while let Some(map) = extents_from(file, at) {
        let before = at;
        for extent in &map.extents[..map.found as usize] {
            let is_shared = extent.flags & FIEMAP_EXTENT_SHARED != 0;
            at = extent.at + extent.len;
            match runs.last_mut() {
                Some((run, shares)) if run.at + run.len == extent.at => {
                    run.len += extent.len;
                    *shares |= is_shared;
                }
                _ => {
                    let _ = runs.pop_if(|(_, shares)| !*shares);
                    runs.push((Span::new(extent.at, extent.len), is_shared));
                }
            }
        }
        if at <= before {
            break;
        }
    }
    runs.into_iter().filter_map(|(run, shares)| shares.then_some(run)).collect()
}

/// The next extents of `file` from byte `at` on; `None` where there are no more.
fn extents_from(file: &File, at: u64) -> Option<Box<Fiemap>> {
    let none = FileExtent { at: 0, physical: 0, len: 0, reserved: [0; 2], flags: 0, reserved_too: [0; 3] };
    let mut map = Box::new(Fiemap {
        start: at,
        len: i64::MAX as u64 - at,
        flags: 0,
        found: 0,
        room: EXTENTS as u32,
        reserved: 0,
        extents: [none; EXTENTS],
    });
    // SAFETY: the call fills at most the room that the struct describes, all of it owned here.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) };
    (done == 0 && map.found > 0).then_some(map)
}
