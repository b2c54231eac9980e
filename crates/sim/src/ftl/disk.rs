//! A disk with the data of another, and the life of a flash drive that is calculated beside it.
//!
//! The data stays where the host put it, so the disk below is a plain image that outlives the calculation. What a drive
//! would have moved and erased is told by [`FtlDisk::figures`].

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrite_medium::{self as medium, Access, Disk, Geometry, Run, Span, Zeroing};

use super::spec::AnyLayer;
use super::{Drive, Figures, HostPage, Spec, Translation};
use crate::Result;

/// A simulated flash drive over the disk `D`.
pub struct FtlDisk<D, T = AnyLayer> {
    inner: D,
    page_bytes: u64,
    drive: Mutex<Drive<T>>,
}

impl<D: Disk> FtlDisk<D> {
    /// `inner` as a drive of `spec`, whose host's blocks are as many as `inner` has.
    ///
    /// # Errors
    /// Where there can be no such drive.
    pub fn new(inner: D, spec: Spec) -> Result<Self> {
        let Spec { shape, .. } = spec;
        let block_bytes = u64::from(shape.page_bytes) * u64::from(shape.block_pages);
        let blocks = inner.geometry().size.div_ceil(block_bytes.max(1));
        let logical_blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Ok(Self::with_drive(inner, Spec { shape: super::Shape { logical_blocks, ..shape }, ..spec }.build()?))
    }
}

impl<D: Disk, T: Translation + Send> FtlDisk<D, T> {
    /// `inner` with the life of `drive`, which has as many bytes or more.
    pub fn with_drive(inner: D, drive: Drive<T>) -> Self {
        Self { inner, page_bytes: u64::from(drive.shape().page_bytes), drive: Mutex::new(drive) }
    }

    /// What is known of the drive, after checking every page.
    ///
    /// # Errors
    /// [`crate::Error::Lost`].
    pub fn figures(&self) -> Result<Figures> {
        self.drive().figures()
    }

    fn drive(&self) -> MutexGuard<'_, Drive<T>> {
        self.drive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the drive of each page that `span` touches.
    fn each(&self, span: Span, tell: impl Fn(&mut Drive<T>, HostPage) -> Result<()>) -> medium::Result<()> {
        let pages = span.at / self.page_bytes..(span.at + span.len).div_ceil(self.page_bytes);
        self.tell(pages, tell)
    }

    /// Tells the drive of each page that lies in `span` whole.
    fn each_whole(&self, span: Span, tell: impl Fn(&mut Drive<T>, HostPage) -> Result<()>) -> medium::Result<()> {
        self.tell(span.at.div_ceil(self.page_bytes)..(span.at + span.len) / self.page_bytes, tell)
    }

    fn tell(
        &self,
        mut pages: std::ops::Range<u64>,
        tell: impl Fn(&mut Drive<T>, HostPage) -> Result<()>,
    ) -> medium::Result<()> {
        let mut drive = self.drive();
        let told = pages.try_for_each(|page| tell(&mut drive, HostPage(page as u32)));
        told.map_err(|why| medium::Error::io("simulating a flash drive", io::Error::other(why)))
    }
}

impl<D: Disk, T: Translation + Send> Disk for FtlDisk<D, T> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> medium::Result<()> {
        self.inner.read(at, into)?;
        self.each(Span::new(at, into.len() as u64), Drive::read)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> medium::Result<()> {
        self.inner.write(at, from, access)?;
        self.each(Span::new(at, from.len() as u64), Drive::write)
    }

    fn flush(&self) -> medium::Result<()> {
        self.inner.flush()
    }

    fn trim(&self, span: Span, access: Access) -> medium::Result<()> {
        self.inner.trim(span, access)?;
        self.each_whole(span, Drive::trim)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> medium::Result<()> {
        self.inner.write_zeroes(span, how)?;
        if how.keep_space { self.each(span, Drive::write) } else { self.each_whole(span, Drive::trim) }
    }

    fn extents(&self, span: Span) -> medium::Result<Vec<Run>> {
        self.inner.extents(span)
    }
}
