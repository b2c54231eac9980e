//! Conversions between the types of the file system and of FUSE.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrite_fs::{Attr, Credentials, FileKind, Rename, SetTime, Time};
use fuser::{FileAttr, FileType, INodeNo, RenameFlags, TimeOrNow};

/// The value of `st_blksize`: the size in which programs copy.
const COPY_BYTES: u32 = 128 << 10;

/// The attributes that report an absent name. The kernel caches the absence, because names are created only through it.
pub(super) const NOTHING: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
    flags: 0,
};

/// Returns the attributes of a file in FUSE's form.
pub(super) fn attributes(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.allocated_bytes.div_ceil(512),
        atime: moment(attr.atime),
        mtime: moment(attr.mtime),
        ctime: moment(attr.ctime),
        crtime: moment(attr.btime),
        kind: file_type(attr.kind),
        perm: attr.mode,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev as u32,
        blksize: COPY_BYTES,
        flags: 0,
    }
}

/// Returns the type of a file in FUSE's form.
pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

fn moment(time: Time) -> SystemTime {
    let since = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
}

/// Returns the time that the kernel sent, or the nearest that the file system can store. Before 1970 the kernel counts
/// seconds down and nanoseconds up, but fuser counts both down: this corrects the nanoseconds.
pub(super) fn time(moment: SystemTime) -> Time {
    let seconds = |since: Duration| i128::from(since.as_secs()) * 1_000_000_000;
    let nanoseconds = match moment.duration_since(UNIX_EPOCH) {
        Ok(since) => seconds(since) + i128::from(since.subsec_nanos()),
        Err(before) => i128::from(before.duration().subsec_nanos()) - seconds(before.duration()),
    };
    Time(nanoseconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// Returns the kind of rename for `flags`, or `None` if the file system does not support the flags.
pub(super) fn rename(flags: RenameFlags, by: Credentials) -> Option<Rename> {
    const WHITEOUT_NOREPLACE: RenameFlags = RenameFlags::RENAME_WHITEOUT.union(RenameFlags::RENAME_NOREPLACE);
    match flags {
        none if none.is_empty() => Some(Rename::Replace),
        RenameFlags::RENAME_NOREPLACE => Some(Rename::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(Rename::Exchange),
        RenameFlags::RENAME_WHITEOUT => Some(Rename::Whiteout(by)),
        WHITEOUT_NOREPLACE => Some(Rename::WhiteoutNoReplace(by)),
        _ => None,
    }
}

/// Returns the time to set in the file system's form.
pub(super) fn set_time(how: TimeOrNow) -> SetTime {
    match how {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(moment) => SetTime::To(time(moment)),
    }
}

#[cfg(test)]
mod tests;
