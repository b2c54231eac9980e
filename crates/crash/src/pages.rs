//! Bytes that are cheap to copy: pages shared until one copy is written.
//!
//! The bytes are a table of chunks of pages, with every level shared. A copy costs one pointer. The first write to it
//! copies the table (a pointer for each 64 KiB), one chunk and one page. All pages never written are the same zero
//! page.

use std::sync::{Arc, LazyLock};

use ferrite_memory::Span;

/// Bytes in a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes in a cache line.
pub(crate) const LINE_BYTES: usize = 64;
const PAGES_PER_CHUNK: usize = 16;

type PageBytes = [u8; PAGE_BYTES];
type PageChunk = [Arc<PageBytes>; PAGES_PER_CHUNK];

static ZERO_PAGE: LazyLock<Arc<PageBytes>> = LazyLock::new(|| Arc::new([0; PAGE_BYTES]));
static ZERO_CHUNK: LazyLock<Arc<PageChunk>> = LazyLock::new(|| Arc::new(std::array::from_fn(|_| ZERO_PAGE.clone())));

/// A run of bytes, copied on write.
#[derive(Clone)]
pub(crate) struct CowPages {
    size: u64,
    chunks: Arc<Vec<Arc<PageChunk>>>,
}

impl CowPages {
    /// Makes `size` zeros.
    pub fn zeros(size: u64) -> Self {
        let chunks = size.div_ceil((PAGE_BYTES * PAGES_PER_CHUNK) as u64) as usize;
        Self { size, chunks: Arc::new(vec![ZERO_CHUNK.clone(); chunks]) }
    }

    /// Copies `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut pages = Self::zeros(bytes.len() as u64);
        for (number, page) in bytes.chunks(PAGE_BYTES).enumerate() {
            if page.iter().any(|&byte| byte != 0) {
                pages.page_mut(number)[..page.len()].copy_from_slice(page);
            }
        }
        pages
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Copies bytes out.
    pub fn read(&self, at: u64, into: &mut [u8]) {
        let mut done = 0;
        for (page, within) in pieces(Span::new(at, into.len() as u64)) {
            let len = within.len();
            into[done..done + len].copy_from_slice(&self.page(page)[within]);
            done += len;
        }
    }

    /// Copies bytes in.
    pub fn write(&mut self, at: u64, from: &[u8]) {
        let mut done = 0;
        for (page, within) in pieces(Span::new(at, from.len() as u64)) {
            let len = within.len();
            self.page_mut(page)[within].copy_from_slice(&from[done..done + len]);
            done += len;
        }
    }

    /// Fills `span` with zeros.
    pub fn zero(&mut self, span: Span) {
        for (page, within) in pieces(span) {
            if self.is_zero_page(page) {
                continue;
            }
            if within.len() == PAGE_BYTES {
                *self.shared_page_mut(page) = ZERO_PAGE.clone();
            } else {
                self.page_mut(page)[within].fill(0);
            }
        }
    }

    /// Returns the line that starts at `at`.
    pub fn line(&self, at: u64) -> &[u8; LINE_BYTES] {
        let (page, within) = place(at);
        self.page(page)[within..].first_chunk().expect("a line lies within one page")
    }

    /// Returns the line that starts at `at`, for a change.
    pub fn line_mut(&mut self, at: u64) -> &mut [u8; LINE_BYTES] {
        let (page, within) = place(at);
        self.page_mut(page)[within..].first_chunk_mut().expect("a line lies within one page")
    }

    /// Returns true if page `number` was never written, or was zeroed as a whole.
    pub fn is_zero_page(&self, number: usize) -> bool {
        Arc::ptr_eq(&self.chunks[number / PAGES_PER_CHUNK][number % PAGES_PER_CHUNK], &ZERO_PAGE)
    }

    fn page(&self, number: usize) -> &PageBytes {
        &self.chunks[number / PAGES_PER_CHUNK][number % PAGES_PER_CHUNK]
    }

    fn page_mut(&mut self, number: usize) -> &mut PageBytes {
        Arc::make_mut(self.shared_page_mut(number))
    }

    fn shared_page_mut(&mut self, number: usize) -> &mut Arc<PageBytes> {
        let chunk = &mut Arc::make_mut(&mut self.chunks)[number / PAGES_PER_CHUNK];
        &mut Arc::make_mut(chunk)[number % PAGES_PER_CHUNK]
    }
}

fn place(at: u64) -> (usize, usize) {
    (at as usize / PAGE_BYTES, at as usize % PAGE_BYTES)
}

/// Returns the parts of `span` by page: the page's number and the range within it.
pub(crate) fn pieces(span: Span) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    cut(span, PAGE_BYTES)
}

/// Returns the parts of `span` by line: the line's first byte and the range within it.
pub(crate) fn lines(span: Span) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    cut(span, LINE_BYTES).map(|(number, within)| ((number * LINE_BYTES) as u64, within))
}

fn cut(span: Span, unit: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let (start, end) = (span.at as usize, (span.at + span.len) as usize);
    let (first, last) = if span.len == 0 { (0, 0) } else { (start / unit, end.div_ceil(unit)) };
    (first..last).map(move |number| {
        let base = number * unit;
        (number, start.max(base) - base..end.min(base + unit) - base)
    })
}
