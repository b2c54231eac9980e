//! Which part of a file is mapped, and which of that an access touches.

use std::io;

use super::backing::{Backing, FoundBacking};
use super::{MapOptions, Mapped};
use crate::{Error, Result, Span};

/// The part of the file that `options` ask for, which is whole pages.
pub(super) fn whole_pages(options: &MapOptions, found: &FoundBacking) -> Result<Span> {
    let unit = found.unit_bytes;
    let all = Span::new(0, found.size / unit * unit);
    let span = options.span.unwrap_or(all);
    if span.len > 0 && span.fits(all.len) && span.aligned_to(unit) {
        return Ok(span);
    }
    let (size, name) = (found.size, &options.name);
    Err(Error::Unsupported(format!(
        "mapping {} bytes at {} of {name}, which has {size} bytes in pages of {unit}: at least one whole page is needed",
        span.len, span.at
    )))
}

/// Why the system would not map it, and what to do.
pub(super) fn refused(options: &MapOptions, found: &FoundBacking, span: Span, why: io::Error) -> Error {
    let advice = match (found.backing, why.kind()) {
        (Backing::Hugetlb, io::ErrorKind::OutOfMemory) => "; raise vm.nr_hugepages",
        _ => "",
    };
    Error::io(format!("mapping {} bytes at {} of {}{advice}", span.len, span.at, options.name), why)
}

impl Mapped {
    /// Refuses what does not lie within the first `limit` bytes.
    #[inline]
    pub(super) fn check(&self, span: Span, limit: u64) {
        if span.len > limit || span.at > limit - span.len {
            self.refuse(span, limit);
        }
    }

    /// The same for whole words.
    #[inline]
    pub(super) fn check_words(&self, span: Span, limit: u64) {
        self.check(span, limit);
        if !span.aligned_to(8) {
            misaligned(span);
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, span: Span, limit: u64) -> ! {
        let why = if limit == 0 { "is mapped read-only" } else { "ends before that" };
        panic!("{} bytes at {}: {} of {} bytes {why}", span.len, span.at, self.name, self.area.len());
    }
}

#[cold]
#[inline(never)]
fn misaligned(span: Span) -> ! {
    panic!("words at byte {}, {} bytes of them: no multiples of 8", span.at, span.len);
}
