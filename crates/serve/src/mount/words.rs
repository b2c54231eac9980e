//! The file system's words and the kernel's, one in the other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrite_fs::{Attr, Kind, SetTime, Time};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

/// What `st_blksize` says: programs copy by so much at once.
const COPY_BYTES: u32 = 128 << 10;

/// A file as the kernel knows it.
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

/// A kind as the kernel knows it.
pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

fn moment(time: Time) -> SystemTime {
    let since = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
}

/// A moment of the kernel's; the nearest that can be kept.
pub(super) fn time(moment: SystemTime) -> Time {
    let nanoseconds = |since: Duration| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    Time(match moment.duration_since(UNIX_EPOCH) {
        Ok(since) => nanoseconds(since),
        Err(before) => -nanoseconds(before.duration()),
    })
}

/// A time to be set.
pub(super) fn set_time(how: TimeOrNow) -> SetTime {
    match how {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(moment) => SetTime::To(time(moment)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file keeps the times that were given to it, those before 1970 too.
    #[test]
    fn times_go_both_ways() {
        for nanoseconds in [0, 1, -1, 1_700_000_000_123_456_789, -86_400_000_000_001, i64::MAX, -i64::MAX] {
            assert_eq!(time(moment(Time(nanoseconds))), Time(nanoseconds));
        }
    }
}
