//! Hit ratios of the pool as a cache of its tier, beside exact LRU on the same traces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ferrite_pool::layout::{CHUNK, PAGE};

use super::tiers::{make, mapped_fs, ssd};
use super::{Bug, plant};
use crate::file::index::{self, IndexEntry};
use crate::format::word::{IndexWord, NamedBy};
use crate::tier::step_tier;
use crate::{FileSystem, Ino, Time};

/// Pages of the file: twice what the pool has room for.
const FILE_PAGES: u64 = 13_000;
/// Accesses after each of which the background works.
const STEP_ACCESSES: u64 = 16;
/// The most by which the hit ratio may stay below exact LRU.
const LOSS_MAX: f64 = 0.02;

/// Exact LRU of a number of pages.
struct ExactLru {
    room: usize,
    clock: u64,
    used: BTreeMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

impl ExactLru {
    fn new(room: u64) -> Self {
        Self { room: room as usize, clock: 0, used: BTreeMap::new(), order: BTreeMap::new() }
    }

    /// Uses `page`. Returns true if it was there.
    fn touch(&mut self, page: u64) -> bool {
        self.clock += 1;
        let before = self.used.insert(page, self.clock);
        before.iter().for_each(|time| _ = self.order.remove(time));
        self.order.insert(self.clock, page);
        if self.order.len() > self.room
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

/// A sequence of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Pages with the frequencies of Zipf's law of exponent 0.99, spread over the file.
struct ZipfPages(Vec<f64>);

impl ZipfPages {
    fn new(pages: u64) -> Self {
        let sums = (1..=pages).scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-0.99);
            Some(*sum)
        });
        Self(sums.collect())
    }

    fn page(&self, random: &mut Random) -> u64 {
        let point = random.next() as f64 / (1_u64 << 31) as f64 * self.0[self.0.len() - 1];
        let rank = self.0.partition_point(|sum| *sum < point) as u64;
        rank * 7919 % self.0.len() as u64
    }
}

/// A file system with one file, of which half is away.
struct CachedFile {
    fs: Arc<FileSystem>,
    ino: Ino,
    accesses: u64,
}

impl CachedFile {
    fn new() -> Self {
        let ticks = AtomicI64::new(5_000_000);
        let clock = Arc::new(move || Time(ticks.fetch_add(5_000_000, Ordering::Relaxed)));
        let fs = mapped_fs(16 * CHUNK, &ssd(128 << 20), clock);
        let ino = make(&fs, "file");
        let mut new = Self { fs, ino, accesses: 0 };
        for page in 0..FILE_PAGES {
            new.access(page, true);
        }
        new
    }

    /// Pages of content that the pool has room for.
    fn room(&self) -> u64 {
        let content = self.fs.content_space();
        (content.used + content.free) / PAGE
    }

    fn has(&self, page: u64) -> bool {
        let inode = self.fs.load(self.ino).expect("there");
        match index::walk(&self.fs, &inode, page) {
            Ok(IndexEntry::Words { at, .. }) => {
                matches!(IndexWord(self.fs.memory().load_word(at)).named(), NamedBy::Page(_))
            }
            _ => false,
        }
    }

    /// Reads or overwrites a page. Returns true if the pool had it.
    fn access(&mut self, page: u64, writes: bool) -> bool {
        let has = self.has(page);
        let mut bytes = [0; PAGE as usize];
        if writes {
            bytes[..8].copy_from_slice(&self.accesses.to_le_bytes());
            self.fs.write(self.ino, page * PAGE, &bytes).expect("written");
        } else {
            self.fs.read(self.ino, page * PAGE, &mut bytes).expect("read");
        }
        self.accesses += 1;
        if self.accesses.is_multiple_of(STEP_ACCESSES) {
            while step_tier(&self.fs, &self.fs.tier).expect("it works") {}
        }
        has
    }

    /// Runs `count` accesses. Returns the hit ratios of the last quarter, of the pool and of exact LRU, which
    /// starts empty.
    fn run(&mut self, count: u64, mut next: impl FnMut(u64) -> (u64, bool)) -> (f64, f64) {
        let mut lru = ExactLru::new(self.room());
        let (mut hits, mut lru_hits) = (0, 0);
        for number in 0..count {
            let (page, writes) = next(number);
            let (hit, lru_hit) = (self.access(page, writes), lru.touch(page));
            if number >= count / 4 * 3 {
                (hits, lru_hits) = (hits + u64::from(hit), lru_hits + u64::from(lru_hit));
            }
        }
        let of = |hits: u64| hits as f64 / (count - count / 4 * 3) as f64;
        (of(hits), of(lru_hits))
    }
}

#[test]
fn ti20_the_pool_hits_as_often_as_exact_lru() {
    let seed = std::env::var("FERRITE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(4711);
    println!("FERRITE_SEED={seed}");
    let zipf = ZipfPages::new(FILE_PAGES);
    let mut random = Random(seed);
    let mut file = CachedFile::new();
    let room = file.room();
    let rows = [
        ("zipf, reads", file.run(40_000, |_| (zipf.page(&mut random), false))),
        ("zipf, 30 % writes", file.run(20_000, |_| (zipf.page(&mut random), random.below(10) < 3))),
        ("zipf, writes", file.run(20_000, |_| (zipf.page(&mut random), true))),
        ("uniform, reads", file.run(20_000, |_| (random.below(FILE_PAGES), false))),
        ("uniform, 30 % writes", file.run(20_000, |_| (random.below(FILE_PAGES), random.below(10) < 3))),
        ("loop beyond the pool", file.run(20_000, |number| (number % (room + room / 4).min(FILE_PAGES), false))),
        ("loop within the pool", file.run(40_000, |number| (number % (room / 4), false))),
    ];
    for (name, (ours, lru)) in &rows {
        println!("{name}: {ours:.3}, exact LRU {lru:.3}");
    }
    for (name, (ours, lru)) in rows {
        assert!(ours >= lru - LOSS_MAX, "{name}: {ours:.3}, exact LRU {lru:.3}");
    }
}

/// Reads of a hot set beside one scan of the file. Returns the hit ratios of the hot set before and during the scan.
fn hot_set_beside_a_scan() -> (f64, f64) {
    let mut file = CachedFile::new();
    let (hot, mut random) = (file.room() / 4, Random(7));
    file.run(6 * hot, |_| (random.below(hot), false));
    let (before, _) = file.run(2 * hot, |_| (random.below(hot), false));
    let (mut hits, mut all) = (0, 0);
    // So seldom that a hot page is not used while the scan reads as many pages as the pool has.
    for page in hot..FILE_PAGES {
        file.access(page, false);
        if page % 4 == 0 {
            hits += u32::from(file.access(random.below(hot), false));
            all += 1;
        }
    }
    (before, f64::from(hits) / f64::from(all))
}

#[test]
fn ti20_a_scan_leaves_the_hot_set_in_the_pool() {
    let (before, during) = hot_set_beside_a_scan();
    assert!(before > 0.9 && during >= 0.95 * before, "{before:.3} before, {during:.3} during the scan");
}

#[test]
fn canary_a_scan_that_comes_into_the_pool_is_found() {
    plant(Some(Bug::EveryRead));
    let (before, during) = hot_set_beside_a_scan();
    plant(None);
    assert!(during < 0.95 * before, "{before:.3} before, {during:.3} during the scan");
}
