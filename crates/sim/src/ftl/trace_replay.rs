//! A block trace on a drive.

use super::{FlashDrive, FlashShape, HostPage, Translation};
use crate::block_trace::{BlockReadAhead, BlockRequest, RequestKind};
use crate::{Error, NextPart, Result};

/// Requests between the one that a drive is told of and the one that it may expect.
const FORESEEN: usize = 8;

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceReplay {
    /// Pages beyond the drive are taken modulo its size; without it they are refused. A request of more pages than the
    /// drive has is refused always.
    pub wraps: bool,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    /// Requests of the trace.
    pub requests: u64,
    /// Pages that they touched.
    pub pages: u64,
    /// The line of the trace that was replayed last.
    pub line: u64,
    /// Whether the trace came to its end.
    pub is_whole: bool,
}

impl TraceReplay {
    /// Gives every request of `trace` to each of `drives`, page by page; a page that a request touches in part counts
    /// whole. `goes_on` is asked every few thousand requests, between which all drives see the same.
    ///
    /// # Errors
    /// Where the trace is not understood or does not fit a drive, with its line; where a layer loses a page.
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
                    let told = self.request(numbered.request, drive).map_err(|why| match why {
                        Error::Beyond { .. } | Error::Larger { .. } => trace.refuse(numbered.line, why.to_string()),
                        why => why,
                    });
                    pages += told?;
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

    /// The first page alone: what follows lies beside it.
    fn foresee<T: Translation>(self, request: BlockRequest, drive: &FlashDrive<T>) {
        let FlashShape { page_bytes, .. } = drive.shape();
        let first = request.span.at / u64::from(page_bytes);
        drive.foresee(self.on_drive(first, drive.shape().host_pages().into()));
    }

    /// What a drive of so many pages calls page `page` of the trace.
    fn on_drive(self, page: u64, pages: u64) -> HostPage {
        HostPage(if self.wraps { page % pages } else { page } as u32)
    }

    /// How many pages it touched.
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
            // Of some formats a request may have no bytes.
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
