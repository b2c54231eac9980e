//! Replay of a block trace on a drive.

use super::{FlashDrive, FlashShape, HostPage, Translation};
use crate::block_trace::{BlockReadAhead, BlockRequest, RequestKind};
use crate::{Error, NextPart, Result};

/// Requests between the current one and the one whose state is prefetched.
const FORESEEN: usize = 8;

/// The options of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceReplay {
    /// True to take pages beyond the drive modulo its size; otherwise such pages are refused. A request of more pages
    /// than the drive has is always refused.
    pub wraps: bool,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Requests of the trace.
    pub requests: u64,
    /// Pages that the requests touched.
    pub pages: u64,
    /// The line of the trace that was replayed last.
    pub line: u64,
    /// True if the trace ended.
    pub is_whole: bool,
}

impl TraceReplay {
    /// Applies every request of `trace` to each of `drives`, page by page; a page that a request touches in part counts
    /// as whole. `goes_on` is called every few thousand requests; at that time all drives have applied the same
    /// requests.
    ///
    /// # Errors
    /// The trace is malformed or does not fit a drive, with its line; a layer loses a page.
    pub fn run<T: Translation>(
        self,
        trace: &mut BlockReadAhead,
        drives: &mut [FlashDrive<T>],
        goes_on: &mut dyn FnMut(ReplayProgress) -> bool,
    ) -> Result<ReplayProgress> {
        let mut done = ReplayProgress::default();
        loop {
            let requests = match trace.batch(&mut || goes_on(done))? {
                NextPart::Part(requests) => requests,
                NextPart::End => return Ok(ReplayProgress { is_whole: true, ..done }),
                NextPart::Stopped => return Ok(done),
            };
            let mut pages = 0;
            for drive in &mut *drives {
                pages = 0;
                for (i, numbered) in requests.iter().enumerate() {
                    if let Some(later) = requests.get(i + FORESEEN) {
                        self.foresee(later.request, drive);
                    }
                    let touched = self.request(numbered.request, drive).map_err(|why| match why {
                        Error::Beyond { .. } | Error::Larger { .. } => trace.refuse(numbered.line, why.to_string()),
                        why => why,
                    });
                    pages += touched?;
                }
            }
            done.pages += pages;
            done.requests += requests.len() as u64;
            done.line = requests.last().map_or(done.line, |last| last.line);
            if !goes_on(done) {
                return Ok(done);
            }
        }
    }

    /// Prefetches the state of the request's first page; the state of further pages lies beside it.
    fn foresee<T: Translation>(self, request: BlockRequest, drive: &FlashDrive<T>) {
        let FlashShape { page_bytes, .. } = drive.shape();
        let first = request.span.at / u64::from(page_bytes);
        drive.foresee(self.on_drive(first, drive.shape().host_pages().into()));
    }

    /// Returns the drive's page for page `page` of the trace; the drive has `pages` pages.
    fn on_drive(self, page: u64, pages: u64) -> HostPage {
        HostPage(if self.wraps { page % pages } else { page } as u32)
    }

    /// Applies a request. Returns the number of pages that it touched.
    fn request<T: Translation>(
        self,
        BlockRequest { kind, span, .. }: BlockRequest,
        drive: &mut FlashDrive<T>,
    ) -> Result<u64> {
        let (page_bytes, pages) = (u64::from(drive.shape().page_bytes), u64::from(drive.shape().host_pages()));
        let end = span.at.saturating_add(span.len);
        // A page of which a part is trimmed keeps its content.
        let (first, last) = match kind {
            RequestKind::Trim => (span.at.div_ceil(page_bytes), end / page_bytes),
            // In some formats a request may have no bytes.
            RequestKind::Read | RequestKind::Write if span.len == 0 => (0, 0),
            RequestKind::Read | RequestKind::Write => (span.at / page_bytes, end.div_ceil(page_bytes)),
        };
        if self.wraps && last.saturating_sub(first) > pages {
            return Err(Error::Larger { request: last - first, pages: pages as u32 });
        }
        if last > first && !self.wraps && last > pages {
            return Err(Error::Beyond { page: last - 1, pages: pages as u32 });
        }
        for page in first..last {
            let page = self.on_drive(page, pages);
            match kind {
                RequestKind::Read => drive.read(page)?,
                RequestKind::Write => drive.write(page)?,
                RequestKind::Trim => drive.trim(page)?,
            }
        }
        Ok(last.saturating_sub(first))
    }
}
