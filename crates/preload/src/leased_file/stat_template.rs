//! The mount's part of a file's attributes, and the combined result of fstat(2).

use ferrite_fs::format::attr::{Attr, Time};

/// A result of the kernel for one file: its device and similar fields stay.
pub struct StatTemplate(pub libc::stat);

impl StatTemplate {
    /// Returns `attr` as the kernel would; `None` if a field is uncertain.
    pub fn of(&self, attr: &Attr) -> Option<libc::stat> {
        let mut stat = self.0;
        (stat.st_ino, stat.st_nlink) = (attr.ino.0, attr.links.into());
        stat.st_mode = attr.kind.mode_bits() | u32::from(attr.mode);
        (stat.st_uid, stat.st_gid) = (attr.uid, attr.gid);
        stat.st_size = i64::try_from(attr.size).ok()?;
        stat.st_blocks = i64::try_from(attr.allocated_bytes.div_ceil(512)).ok()?;
        (stat.st_atime, stat.st_atime_nsec) = split(attr.atime)?;
        (stat.st_mtime, stat.st_mtime_nsec) = split(attr.mtime)?;
        (stat.st_ctime, stat.st_ctime_nsec) = split(attr.ctime)?;
        Some(stat)
    }
}

/// Returns seconds and nanoseconds; `None` for a time before 1970, which is the kernel's.
fn split(time: Time) -> Option<(i64, i64)> {
    const SECOND_NS: i64 = 1_000_000_000;
    (time.0 >= 0).then_some((time.0 / SECOND_NS, time.0 % SECOND_NS))
}
