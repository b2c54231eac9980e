//! Content of files, as the kernel reads and writes it.

use std::ops::Range;

use ferrite_fs::{Allocate, Ino, Result};
use fuser::{OpenFlags, Request, WriteFlags};

use super::front::Front;

impl Front {
    /// Reads for who has the file open by `flags`. The kernel keeps what it is told (FM5).
    pub(super) fn read_by(&self, ino: Ino, at: u64, into: &mut [u8], flags: OpenFlags) -> Result<usize> {
        self.end_writing(ino);
        match flags.0 & libc::O_NOATIME {
            0 => self.fs.read(ino, at, into),
            _ => self.fs.read_unnoted(ino, at, into),
        }
    }

    /// Writes for who has the file open by `flags`, or for the kernel, as `how` has it.
    pub(super) fn write_at(
        &self,
        by: &Request,
        (ino, at): (Ino, u64),
        data: &[u8],
        (how, flags): (WriteFlags, OpenFlags),
    ) -> Result<usize> {
        #[cfg(test)]
        if super::tests::note_write() {
            return Ok(data.len());
        }
        let is_late = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let appends = flags.0 & libc::O_APPEND != 0 && !is_late && !self.cached;
        let len = data.len() as u64;
        match is_late {
            true => self.ensure_room_late(ino, at, len)?,
            false => self.ensure_room_at(by.uid(), (ino, (!appends).then_some(at)), len)?,
        }
        if appends && may_be_cut((at, data.len()), flags) {
            self.fs.expect_more(ino);
        }
        self.end_writing(ino);
        if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            self.lose_rights(by, ino)?;
        } else if self.is_atomic && !is_late {
            // Which the kernel does otherwise, before it writes to its cache. What is stored to a mapping takes none away.
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

    /// Gives or takes space of a file. Where that fails some of it may be done, of which the kernel hears nothing else.
    pub(super) fn allocate(&self, by: &Request, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
        if how != Allocate::Punch {
            self.ensure_room_at(by.uid(), (ino, Some(range.start)), range.end - range.start)?;
        }
        self.end_writing(ino);
        if by.uid() != 0 {
            self.lose_rights(by, ino)?;
        }
        self.fs.allocate(ino, range, how).inspect_err(|_| self.fs.forget_attributes(ino))
    }

    /// Writes what the kernel has kept back. It takes a short count for all, so the rest is to say why it is one (FM8).
    fn write_back(&self, ino: Ino, at: u64, data: &[u8]) -> Result<usize> {
        let mut done = 0;
        while done < data.len() {
            let (at, rest) = (at + done as u64, &data[done..]);
            done += if self.cached { self.write_cached(ino, at, rest)? } else { self.fs.write(ino, at, rest)? };
            #[cfg(test)]
            if super::tests::is_planted(super::tests::Bug::ShortWriteBack) {
                break;
            }
        }
        Ok(done)
    }

    /// Writes to a file whose times the kernel keeps (FM7).
    fn write_cached(&self, ino: Ino, at: u64, data: &[u8]) -> Result<usize> {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::Restamped) {
            return self.fs.write(ino, at, data);
        }
        self.fs.write_unnoted(ino, at, data)
    }

    /// Appends. The kernel has it in its copy at byte `at`, which it believes to be the end (FM5).
    fn append(&self, ino: Ino, at: u64, data: &[u8]) -> Result<usize> {
        let (place, len) = self.fs.append(ino, data)?;
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::Misplaced) {
            return Ok(len);
        }
        if place != at {
            self.fs.forget_copies(ino);
        }
        Ok(len)
    }
}

/// Whether the kernel may have cut a write of which a request has `len` bytes from byte `at` on, where it believes the end to be:
/// at the end of a page, or past its cache anywhere.
fn may_be_cut((at, len): (u64, usize), flags: OpenFlags) -> bool {
    const PAGE: u64 = 4096;
    (at + len as u64).is_multiple_of(PAGE) || flags.0 & libc::O_DIRECT != 0
}
