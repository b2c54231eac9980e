//! A disk with the data of another, beside which the life of a flash drive is calculated.
//!
//! The data stays where the host put it, so the disk below is a plain image that outlives the calculation.
//! [`FtlDisk::figures`] reports the pages that a drive would have moved and the blocks it would have erased.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrite_disk::{Access, Disk, Geometry, Run, Zeroing};
use ferrite_memory::{self as medium, Span};

use super::drive_spec::AnyLayer;
use super::{DriveSpec, FlashDrive, FlashFigures, HostPage, Translation};
use crate::Result;

/// A simulated flash drive over the disk `D`.
pub struct FtlDisk<D, T = AnyLayer> {
    inner: D,
    page_bytes: u64,
    drive: Mutex<FlashDrive<T>>,
}

impl<D: Disk> FtlDisk<D> {
    /// Returns `inner` as a drive of `spec`, with as many host blocks as `inner` needs.
    ///
    /// # Errors
    /// The shape describes no drive.
    pub fn new(inner: D, spec: DriveSpec) -> Result<Self> {
        let DriveSpec { shape, .. } = spec;
        let block_bytes = u64::from(shape.page_bytes) * u64::from(shape.block_pages);
        let blocks = inner.geometry().size.div_ceil(block_bytes.max(1));
        let logical_blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Ok(Self::with_drive(inner, DriveSpec { shape: super::FlashShape { logical_blocks, ..shape }, ..spec }.build()?))
    }
}

impl<D: Disk, T: Translation + Send> FtlDisk<D, T> {
    /// Returns `inner` with the life of `drive`, which must have at least as many bytes.
    pub fn with_drive(inner: D, drive: FlashDrive<T>) -> Self {
        Self { inner, page_bytes: u64::from(drive.shape().page_bytes), drive: Mutex::new(drive) }
    }

    /// Returns the figures of the drive, after checking every page.
    ///
    /// # Errors
    /// [`crate::Error::Lost`].
    pub fn figures(&self) -> Result<FlashFigures> {
        self.drive().figures()
    }

    fn drive(&self) -> MutexGuard<'_, FlashDrive<T>> {
        self.drive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pages that `span` touches.
    fn touched(&self, span: Span) -> Range<u64> {
        let first = span.at / self.page_bytes;
        first..if span.len == 0 { first } else { (span.at + span.len).div_ceil(self.page_bytes) }
    }

    /// Returns the pages that lie wholly in `span`.
    fn whole(&self, span: Span) -> Range<u64> {
        span.at.div_ceil(self.page_bytes)..(span.at + span.len) / self.page_bytes
    }

    /// Applies an operation on each page to the drive.
    fn apply(
        &self,
        mut pages: impl Iterator<Item = u64>,
        apply: impl Fn(&mut FlashDrive<T>, HostPage) -> Result<()>,
    ) -> medium::Result<()> {
        let mut drive = self.drive();
        let applied = pages.try_for_each(|page| apply(&mut drive, HostPage(page as u32)));
        applied.map_err(|why| medium::Error::io("simulating a flash drive", io::Error::other(why)))
    }
}

impl<D: Disk, T: Translation + Send> Disk for FtlDisk<D, T> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> medium::Result<()> {
        self.inner.read(at, into)?;
        self.apply(self.touched(Span::new(at, into.len() as u64)), FlashDrive::read)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> medium::Result<()> {
        self.inner.write(at, from, access)?;
        self.apply(self.touched(Span::new(at, from.len() as u64)), FlashDrive::write)
    }

    fn flush(&self) -> medium::Result<()> {
        self.inner.flush()
    }

    fn trim(&self, span: Span, access: Access) -> medium::Result<()> {
        self.inner.trim(span, access)?;
        self.apply(self.whole(span), FlashDrive::trim)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> medium::Result<()> {
        self.inner.write_zeroes(span, how)?;
        let (touched, whole) = (self.touched(span), self.whole(span));
        if how.keep_space {
            return self.apply(touched, FlashDrive::write);
        }
        // A page of which a part is zeroed has new content.
        self.apply(touched.filter(|page| !whole.contains(page)), FlashDrive::write)?;
        self.apply(whole, FlashDrive::trim)
    }

    fn extents(&self, span: Span) -> medium::Result<Vec<Run>> {
        self.inner.extents(span)
    }
}
