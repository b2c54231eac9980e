//! Requests of the kernel that read and write the content of files.

use std::ops::Range;

use ferrite_fs::{Allocate, Ino, Result};
use ferrite_memory::planted;
use fuser::{OpenFlags, Request, WriteFlags};

use super::server::FuseFs;

/// A request to write to a file.
pub(super) struct WriteRequest<'a> {
    pub ino: Ino,
    /// The first byte.
    pub at: u64,
    pub data: &'a [u8],
    /// Where the data comes from.
    pub how: WriteFlags,
    /// The flags by which the program opened the file.
    pub opened: OpenFlags,
}

impl FuseFs {
    /// Reads for a program that opened the file with `flags`. The kernel may cache the answer (FM5).
    pub(super) fn read_by(&self, ino: Ino, at: u64, into: &mut [u8], flags: OpenFlags) -> Result<usize> {
        self.end_writing(ino);
        match flags.0 & libc::O_NOATIME {
            0 => self.fs.read(ino, at, into),
            _ => self.fs.read_unnoted(ino, at, into),
        }
    }

    /// Writes for a program, or for the kernel's late write-back.
    pub(super) fn write_at(&self, by: &Request, write: WriteRequest<'_>) -> Result<usize> {
        let WriteRequest { ino, at, data, how, opened: flags } = write;
        if planted!("mount: kept back") {
            return Ok(data.len());
        }
        let is_late = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let appends = flags.0 & libc::O_APPEND != 0 && !is_late && !self.cached;
        let len = data.len() as u64;
        match is_late {
            true => self.ensure_room_late(ino, at, len)?,
            false => self.ensure_room_at(by.uid(), ino, (!appends).then_some(at), len)?,
        }
        if appends && may_be_cut(at, len, flags) {
            self.fs.expect_more(ino);
        }
        self.end_writing(ino);
        if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            self.lose_rights(by, ino)?;
        } else if self.is_atomic && !is_late {
            // A direct write bypasses the kernel's own removal of capabilities. A store to a mapping removes none.
            self.drop_capabilities(ino)?;
        }
        if is_late {
            return self.write_back(ino, at, data);
        }
        if self.cached {
            return self.write_cached(ino, at, data);
        }
        if appends {
            return self.append(ino, at, data);
        }
        self.fs.write(ino, at, data)
    }

    /// Allocates or frees space of a file. After a failure the kernel drops the attributes it has cached, because a part
    /// of the change may have happened.
    pub(super) fn allocate(&self, by: &Request, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
        if how != Allocate::Punch {
            self.ensure_room_at(by.uid(), ino, Some(range.start), range.end - range.start)?;
        }
        self.end_writing(ino);
        if by.uid() != 0 {
            self.lose_rights(by, ino)?;
        }
        self.fs.allocate(ino, range, how).inspect_err(|_| self.fs.forget_attributes(ino))
    }

    /// Writes what the kernel held back. The kernel takes a short count for success, so this writes until all is written
    /// or an error says why not (FM8).
    fn write_back(&self, ino: Ino, at: u64, data: &[u8]) -> Result<usize> {
        let mut done = 0;
        while done < data.len() {
            let (at, rest) = (at + done as u64, &data[done..]);
            done += if self.cached { self.write_cached(ino, at, rest)? } else { self.fs.write(ino, at, rest)? };
            if planted!("mount: short write back") {
                break;
            }
        }
        Ok(done)
    }

    /// Writes to a file whose times the kernel maintains (FM7).
    fn write_cached(&self, ino: Ino, at: u64, data: &[u8]) -> Result<usize> {
        if planted!("mount: restamped") {
            return self.fs.write(ino, at, data);
        }
        self.fs.write_unnoted(ino, at, data)
    }

    /// Appends. The kernel has put the data into its copy at byte `at`, where it believes the end to be (FM5).
    fn append(&self, ino: Ino, at: u64, data: &[u8]) -> Result<usize> {
        let (place, len) = self.fs.append(ino, data)?;
        if planted!("mount: misplaced") {
            return Ok(len);
        }
        if place != at {
            self.fs.forget_copies(ino);
        }
        Ok(len)
    }
}

/// Returns true if the kernel may have split a write of which this request is the first part. It splits at the end of
/// a page, and a direct write anywhere.
fn may_be_cut(at: u64, len: u64, flags: OpenFlags) -> bool {
    const PAGE: u64 = 4096;
    (at + len).is_multiple_of(PAGE) || flags.0 & libc::O_DIRECT != 0
}
