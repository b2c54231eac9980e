//! A disk behind a pointer is a disk.

use std::sync::Arc;

use crate::{Access, Disk, Geometry, Queue, Run, Zeroing};
use ferrite_memory::{Borrower, Lent, Result, Span};

macro_rules! disk_behind {
    ($($pointer:ty),*) => {$(
        impl<D: Disk + ?Sized> Disk for $pointer {
            fn geometry(&self) -> Geometry {
                (**self).geometry()
            }

            fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
                (**self).read(at, into)
            }

            fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
                (**self).write(at, from, access)
            }

            fn flush(&self) -> Result<()> {
                (**self).flush()
            }

            fn trim(&self, span: Span, access: Access) -> Result<()> {
                (**self).trim(span, access)
            }

            fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
                (**self).write_zeroes(span, how)
            }

            fn extents(&self, span: Span) -> Result<Vec<Run>> {
                (**self).extents(span)
            }

            fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
                (**self).lend(span, least_bytes, borrower)
            }

            fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
                (**self).queue()
            }
        }
    )*};
}

disk_behind!(&D, Box<D>, Arc<D>);
