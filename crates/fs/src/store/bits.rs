//! Runs of pages, and the bits that stand for them.

use ferrite_pool::layout::CHUNK_PAGES;

/// A run of pages in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    pub page: u64,
    pub pages: u64,
}

/// The lowest `count` bits that are set in `bits`.
pub(crate) fn lowest(bits: u64, count: u64) -> u64 {
    if count >= 64 || u64::from(bits.count_ones()) <= count {
        return bits;
    }
    let (mut rest, mut taken) = (bits, 0);
    for _ in 0..count {
        let bit = rest & rest.wrapping_neg();
        taken |= bit;
        rest ^= bit;
    }
    taken
}

/// Adds the pages whose bits are set, from page `first` on; adjacent pages of one chunk are joined.
pub(crate) fn append_bits(runs: &mut Vec<PageRun>, first: u64, mut bits: u64) {
    while bits != 0 {
        let start = bits.trailing_zeros();
        let count = (bits >> start).trailing_ones();
        let page = first + u64::from(start);
        match runs.last_mut() {
            Some(last) if last.page + last.pages == page && !page.is_multiple_of(CHUNK_PAGES) => {
                last.pages += u64::from(count);
            }
            _ => runs.push(PageRun { page, pages: count.into() }),
        }
        bits &= (u64::MAX.checked_shl(start + count)).unwrap_or(0);
    }
}

/// The words of a bitmap that `run` touches, and its bits in each.
pub(crate) fn words_of(run: PageRun) -> impl Iterator<Item = (usize, u64)> {
    let (mut at, end) = (run.page % CHUNK_PAGES, run.page % CHUNK_PAGES + run.pages);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (word, first) = ((at / 64) as usize, at % 64);
        let count = (64 - first).min(end - at);
        at += count;
        Some((word, (u64::MAX >> (64 - count)) << first))
    })
}

/// The pages of `runs`, in order.
pub(crate) fn pages_of(runs: &[PageRun]) -> impl Iterator<Item = u64> {
    runs.iter().flat_map(|run| run.page..run.page + run.pages)
}
