//! Properties of a file or block device, from the host.
#![allow(unsafe_code, reason = "ioctls of block devices")]

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::FileDiskOptions;
use ferrite_memory::{Error, Result, planted};

/// Units direct I/O asks for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectUnits {
    /// Of a buffer's address.
    pub address: usize,
    /// Of offsets and lengths.
    pub offset: u32,
}

/// An open file and what it is.
pub(super) struct OpenedFile {
    pub file: File,
    /// Where it bypasses the page cache.
    pub direct: Option<DirectUnits>,
    pub is_device: bool,
    pub size: u64,
    pub sector_bytes: u32,
    pub trim: bool,
}

const WIDEST: u32 = 4096;
/// Bytes of the smallest sector.
const SECTOR: u64 = 512;

pub(super) fn open(path: &Path, options: &FileDiskOptions) -> Result<OpenedFile> {
    let about = fs::metadata(path).map_err(|why| Error::io(format!("opening {}", path.display()), why))?;
    let is_device = about.file_type().is_block_device();
    if !is_device && !about.is_file() {
        let what = format!("{} is neither a file nor a block device", path.display());
        return Err(Error::Unsupported(what));
    }
    // O_EXCL without O_CREAT applies to a block device only: no other process has it mounted or open this way.
    let exclusive = if is_device { libc::O_EXCL } else { 0 };
    let size = (!is_device).then_some(about.len());
    let (file, direct) = open_as_allowed(path, options, exclusive, size)?;
    lock(&file, path, options.read_only)?;
    ensure_named(&file, path)?;
    let sector_bytes = sector_bytes(&file, is_device, direct)?;
    let size = (&file).seek(SeekFrom::End(0)).map_err(|why| Error::io(format!("sizing {}", path.display()), why))?;
    let trim = !options.read_only && if is_device { device_trims(&file) } else { punches(&file, size) };
    Ok(OpenedFile { file, direct, is_device, size, sector_bytes, trim })
}

/// How often a lock is tried, and the pause between.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Locks the file until it is closed: for writing against all other disks, for reading against writers. A short pause
/// passes over a udev that probes the device, and over a child process that has not executed its program yet.
fn lock(file: &File, path: &Path, read_only: bool) -> Result<()> {
    let (operation, remedy) = if read_only {
        (FlockOperation::NonBlockingLockShared, "a program has it open for writing: end that program first")
    } else {
        let remedy =
            "a program has it open as a disk: end that program first, or open it read-only if that one only reads";
        (FlockOperation::NonBlockingLockExclusive, remedy)
    };
    for _ in 0..LOCK_TRIES {
        match flock(file, operation) {
            _ if planted!("disk: files are not locked") => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) => thread::sleep(LOCK_PAUSE),
            // Any other error comes from a file system without locks.
            Ok(()) | Err(_) => return Ok(()),
        }
    }
    Err(Error::io(format!("opening {}", path.display()), io::Error::new(io::ErrorKind::ResourceBusy, remedy)))
}

/// Refuses a file that was removed or replaced while it was opened: what is written to it would be lost.
pub(super) fn ensure_named(file: &File, path: &Path) -> Result<()> {
    let opening = |why| Error::io(format!("opening {}", path.display()), why);
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    let ours = file.metadata().map(identity).map_err(opening)?;
    if fs::metadata(path).map(identity).is_ok_and(|named| named == ours) || planted!("disk: a removed file is opened") {
        return Ok(());
    }
    Err(opening(io::Error::new(io::ErrorKind::NotFound, "it was removed while it was opened: try again")))
}

/// With `O_DIRECT` where that works and is wanted, else without: also for a file of `size` bytes whose last sectors fill
/// no unit of direct I/O, which could not be reached.
fn open_as_allowed(
    path: &Path,
    options: &FileDiskOptions,
    flags: i32,
    size: Option<u64>,
) -> Result<(File, Option<DirectUnits>)> {
    let reaches_all = |units: &DirectUnits| {
        size.is_none_or(|size| (size / SECTOR * SECTOR).is_multiple_of(u64::from(units.offset).max(SECTOR)))
    };
    let open = |flags| OpenOptions::new().read(true).write(!options.read_only).custom_flags(flags).open(path);
    if !options.buffered
        && let Ok(file) = open(flags | libc::O_DIRECT)
        && let Some(units) = direct_units(&file).filter(reaches_all)
    {
        return Ok((file, Some(units)));
    }
    let file = open(flags).map_err(|why| Error::io(format!("opening {}", path.display()), why))?;
    Ok((file, None))
}

/// `None` where the host takes no direct I/O on the file, or only in units wider than a sector may be.
fn direct_units(file: &File) -> Option<DirectUnits> {
    // SAFETY: all zeros is a valid value of this plain struct of integers.
    let mut about: libc::statx = unsafe { std::mem::zeroed() };
    let (fd, mask) = (file.as_raw_fd(), libc::STATX_DIOALIGN);
    // SAFETY: the path is an empty C string and the struct is ours to fill.
    let asked = unsafe { libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &mut about) } == 0;
    if !asked || about.stx_mask & mask == 0 {
        // A kernel before 6.1, or a file system that does not report its units: a page suits all.
        return Some(DirectUnits { address: WIDEST as usize, offset: WIDEST });
    }
    let (address, offset) = (about.stx_dio_mem_align, about.stx_dio_offset_align);
    let usable = address.is_power_of_two() && offset.is_power_of_two() && offset <= WIDEST;
    usable.then_some(DirectUnits { address: address as usize, offset })
}

fn sector_bytes(file: &File, is_device: bool, direct: Option<DirectUnits>) -> Result<u32> {
    let unit = direct.map_or(512, |units| units.offset.max(512));
    if !is_device {
        return Ok(if unit == 512 { 512 } else { WIDEST });
    }
    let mut logical: libc::c_int = 0;
    // SAFETY: the ioctl fills one int of ours.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET as _, &mut logical) } != 0 {
        return Err(Error::last_os("asking for the device's sector size"));
    }
    match unit.max(logical as u32) {
        512 => Ok(512),
        1024..=WIDEST => Ok(WIDEST),
        other => Err(Error::Unsupported(format!("a device with sectors of {other} bytes"))),
    }
}

/// Whether the file system punches holes: asked where there is nothing to lose, past the end.
fn punches(file: &File, size: u64) -> bool {
    let past = size.next_multiple_of(1 << 20) as libc::off_t;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the call works on a descriptor of ours and touches no memory.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, past, 1 << 20) == 0 }
}

fn device_trims(file: &File) -> bool {
    let Ok(about) = file.metadata() else { return false };
    let node = format!("/sys/dev/block/{}:{}", libc::major(about.rdev()), libc::minor(about.rdev()));
    // A partition has no queue of its own; its disk, one folder up, has.
    [format!("{node}/queue"), format!("{node}/../queue")].iter().any(|queue| {
        let limit = fs::read_to_string(format!("{queue}/discard_max_bytes")).unwrap_or_default();
        limit.trim().parse().is_ok_and(|bytes: u64| bytes > 0)
    })
}
