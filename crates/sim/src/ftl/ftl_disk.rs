//! A disk with the data of another, beside which the life of a flash drive is calculated.
//!
//! The data stays where the host put it, so the disk below is a plain image that outlives the calculation.
//! [`FtlDisk::figures`] reports the pages that a drive would have moved and the blocks it would have erased.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrite_disk::{
    Access, Completion, Disk, Geometry, LayeredQueue, NotedRequest, Op, Queue, QueueLayer, Run, Zeroing,
};
use ferrite_memory::{self as medium, Span};

use super::drive_spec::AnyLayer;
use super::{DriveSpec, FlashDrive, FlashFigures, HostPage, Translation};
use crate::Result;

/// A simulated flash drive over the disk `D`.
pub struct FtlDisk<D, T = AnyLayer> {
    inner: D,
    flash: Arc<SharedFlash<T>>,
}

/// The calculated drive of a disk and its queues.
struct SharedFlash<T> {
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
        let page_bytes = u64::from(drive.shape().page_bytes);
        Self { inner, flash: Arc::new(SharedFlash { page_bytes, drive: Mutex::new(drive) }) }
    }

    /// Returns the figures of the drive, after checking every page.
    ///
    /// # Errors
    /// [`crate::Error::Lost`].
    pub fn figures(&self) -> Result<FlashFigures> {
        self.flash.drive().figures()
    }
}

impl<T: Translation + Send> SharedFlash<T> {
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

    /// Applies a request that the disk below has done.
    fn follow(&self, op: Op, span: Span) -> medium::Result<()> {
        match op {
            Op::Read => self.apply(self.touched(span), FlashDrive::read),
            Op::Write(_) => self.apply(self.touched(span), FlashDrive::write),
            Op::Flush => Ok(()),
            Op::Trim(_) => self.apply(self.whole(span), FlashDrive::trim),
            Op::Zero(how) if how.keep_space => self.apply(self.touched(span), FlashDrive::write),
            Op::Zero(_) => {
                let (touched, whole) = (self.touched(span), self.whole(span));
                // A page of which a part is zeroed has new content.
                self.apply(touched.filter(|page| !whole.contains(page)), FlashDrive::write)?;
                self.apply(whole, FlashDrive::trim)
            }
        }
    }
}

/// Applies the requests of a queue.
struct FlashLayer<T>(Arc<SharedFlash<T>>);

impl<T: Translation + Send> QueueLayer for FlashLayer<T> {
    fn complete(&mut self, request: NotedRequest, completion: &mut Completion) {
        if completion.result.is_ok() {
            completion.result = self.0.follow(request.op, request.touched);
        }
    }
}

impl<D: Disk, T: Translation + Send + 'static> Disk for FtlDisk<D, T> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> medium::Result<()> {
        self.inner.read(at, into)?;
        self.flash.follow(Op::Read, Span::new(at, into.len() as u64))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> medium::Result<()> {
        self.inner.write(at, from, access)?;
        self.flash.follow(Op::Write(access), Span::new(at, from.len() as u64))
    }

    fn flush(&self) -> medium::Result<()> {
        self.inner.flush()
    }

    fn trim(&self, span: Span, access: Access) -> medium::Result<()> {
        self.inner.trim(span, access)?;
        self.flash.follow(Op::Trim(access), span)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> medium::Result<()> {
        self.inner.write_zeroes(span, how)?;
        self.flash.follow(Op::Zero(how), span)
    }

    fn extents(&self, span: Span) -> medium::Result<Vec<Run>> {
        self.inner.extents(span)
    }

    fn queue(&self) -> medium::Result<Option<Box<dyn Queue>>> {
        LayeredQueue::open(&self.inner, FlashLayer(Arc::clone(&self.flash)))
    }
}
