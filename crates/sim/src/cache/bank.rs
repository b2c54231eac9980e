//! One bank of a last-level cache under one policy.

use super::cache_event::CacheEvent;
use super::policy::{LineHit, LineMiss, Policy};
use super::set::{NarrowSet, Rank, Set, with_vectors};
use super::write_counts::WriteCounts;
use super::{BANKS, BankGeometry, WAYS_MAX};

/// The counts of one policy, in one bank or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankCounts {
    /// Reads of lines that were not in the cache.
    pub read_misses: u64,
    /// Writes of lines that were not in the cache.
    pub write_misses: u64,
    /// Accesses to lines that were in the cache.
    pub hits: u64,
    /// Lines written to memory, including those that were dirty at the end.
    pub writebacks: u64,
    /// Accesses and writebacks by region of the cache.
    pub regions: [RegionTraffic; 16],
}

/// The traffic of a region of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionTraffic {
    /// Hits in the region, and lines brought into it.
    pub accesses: u64,
    /// Lines written back from the region.
    pub writebacks: u64,
}

impl std::ops::AddAssign<&BankCounts> for BankCounts {
    fn add_assign(&mut self, other: &Self) {
        self.read_misses += other.read_misses;
        self.write_misses += other.write_misses;
        self.hits += other.hits;
        self.writebacks += other.writebacks;
        for (region, other) in self.regions.iter_mut().zip(&other.regions) {
            region.accesses += other.accesses;
            region.writebacks += other.writebacks;
        }
    }
}

/// The window of a rank.
#[derive(Clone, Copy, Default)]
struct RankWindow {
    /// The first rank of the window.
    top: u8,
    /// The region of the window, used unless the policy gives a region by set.
    region: u8,
}

/// The next access, whose set was searched ahead.
#[derive(Clone, Copy)]
struct PendingAccess {
    event: CacheEvent,
    /// The index of its set in the bank.
    at: usize,
    /// The hash of its line.
    print: u16,
    /// The ways whose line has this hash, a bit each.
    likely: u64,
}

/// The tag of an unfilled way.
const NOWHERE: u64 = u64::MAX;

/// Events after which the writes are counted.
const BATCH: usize = 4096;

/// One bank under one policy, with sets of one kind.
pub struct Bank<P, S = NarrowSet> {
    policy: P,
    geometry: BankGeometry,
    /// The window of each rank.
    windows: [RankWindow; WAYS_MAX as usize],
    sets: Vec<S>,
    /// The line in each way, set by set, with as many ways as this kind of set may have.
    tags: Vec<u64>,
    counts: BankCounts,
    written: Vec<u64>,
    writes: WriteCounts,
}

impl<P: Policy> Bank<P> {
    /// Returns an empty bank of at most 16 ways.
    ///
    /// # Panics
    /// The cache has more ways; see also [`Bank::of`].
    pub fn new(geometry: BankGeometry, policy: P) -> Self {
        Self::of(geometry, policy)
    }
}

impl<P: Policy, S: Set> Bank<P, S> {
    /// Returns an empty bank with sets of kind `S`.
    ///
    /// # Panics
    /// The sets have fewer ways than the cache, or the policy's window does not divide the ways.
    pub fn of(geometry: BankGeometry, policy: P) -> Self {
        let ways = geometry.ways;
        assert!(ways as usize <= S::WAYS, "{ways} ways do not fit");
        if let Some(window) = policy.window() {
            assert!(ways.is_multiple_of(window), "a window of {window} ranks does not divide {ways} ways");
        }
        let sets = geometry.bank_sets() as usize;
        let window = policy.window().unwrap_or(WAYS_MAX);
        let window = |rank| RankWindow { top: (rank - rank % window) as u8, region: (rank / window % 16) as u8 };
        Self {
            policy,
            geometry,
            windows: std::array::from_fn(|rank| window(rank as Rank)),
            sets: vec![S::EMPTY; sets],
            tags: vec![NOWHERE; sets * S::WAYS],
            counts: BankCounts::default(),
            written: Vec::new(),
            writes: WriteCounts::new(geometry.bank_bits),
        }
    }

    /// Applies events of the bank's sets, in their order.
    ///
    /// # Panics
    /// The policy names a victim that no set has.
    pub fn run(&mut self, events: &[CacheEvent]) {
        with_vectors(
            #[inline(always)]
            || {
                for events in events.chunks(BATCH) {
                    self.access_all(events);
                    self.count_writes();
                }
            },
        );
    }

    /// Writes back every dirty line. No event may follow.
    pub fn drain(&mut self) {
        for (set, tags) in self.sets.iter().zip(self.tags.chunks_exact(S::WAYS)) {
            let dirty = (0..S::WAYS as Rank).filter(|rank| set.dirty() >> rank & 1 != 0);
            self.written.extend(dirty.map(|rank| tags[set.way(rank)]));
        }
        self.count_writes();
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &BankCounts {
        &self.counts
    }

    /// Returns how often each line was written to memory.
    pub fn writes(&self) -> &WriteCounts {
        &self.writes
    }

    /// Searches each set before it applies the access before, so that a processor that mispredicts a hit notices soon.
    /// After the last access the first set is searched once more, without effect.
    #[inline(always)]
    fn access_all(&mut self, events: &[CacheEvent]) {
        let Some(first) = events.first() else { return };
        let mut look = self.look(*first);
        for next in events[1..].iter().chain([first]) {
            let mut next = self.look(*next);
            self.access(look, &mut next);
            look = next;
        }
    }

    #[inline(always)]
    fn look(&self, event: CacheEvent) -> PendingAccess {
        let line = event.line();
        let at = self.geometry.set_in_bank(line);
        let print = (line.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48) as u16;
        PendingAccess { event, at, print, likely: self.sets[at].matches(print) }
    }

    #[inline(always)]
    fn access(&mut self, look: PendingAccess, next: &mut PendingAccess) {
        let PendingAccess { event, at, print, mut likely } = look;
        while likely != 0 {
            let way = likely.trailing_zeros() as usize;
            if self.tags[at * S::WAYS + way] == event.line() {
                return self.found(at, way, event);
            }
            likely &= likely - 1;
        }
        let is_write = event.is_write();
        self.counts.write_misses += u64::from(is_write);
        self.counts.read_misses += u64::from(!is_write);
        let way = self.bring(at, print, event);
        // The replaced way, if the next access has the same set. No branch: the outcome is unpredictable.
        let changed = u64::from(next.at == at) << way;
        next.likely = (next.likely & !changed) | (changed * u64::from(next.print == print));
    }

    #[inline(always)]
    fn found(&mut self, at: usize, way: usize, event: CacheEvent) {
        self.counts.hits += 1;
        let rank = self.sets[at].rank(way);
        let window = self.window(rank);
        let set = &mut self.sets[at];
        let was_dirty = set.dirty() >> rank & 1 != 0;
        set.promote(rank, window.top.into(), event.is_write());
        let set_index = self.geometry.set(event.line());
        let region = self.policy.region(set_index).unwrap_or(window.region.into());
        self.counts.regions[region & 15].accesses += 1;
        let (line, signature, is_write) = (event.line(), event.signature(), event.is_write());
        self.policy.hit(LineHit { line, signature, set: set_index, rank, way, is_write, was_dirty });
    }

    #[inline(always)]
    fn bring(&mut self, at: usize, print: u16, event: CacheEvent) -> usize {
        let line = event.line();
        let set_index = self.geometry.set(line);
        let (signature, tag) = (event.signature(), self.geometry.tag(line));
        let miss = LineMiss { line, signature, tag, set: set_index, is_write: event.is_write() };
        let rank = self.policy.victim(&self.sets[at], miss);
        // Another rank would give figures that look right: a set has room for more ways than the cache.
        assert!(rank < self.geometry.ways, "victim {rank} of {} ways", self.geometry.ways);
        let window = self.window(rank);
        let set = &mut self.sets[at];
        let way = set.way(rank);
        let region = self.policy.region(set_index).unwrap_or(window.region.into());
        let region = &mut self.counts.regions[region & 15];
        region.accesses += 1;
        let dirty = set.dirty() >> rank & 1;
        region.writebacks += dirty;
        // No branch depends on whether the line is dirty: the outcome is unpredictable.
        let written = self.written.len() + dirty as usize;
        self.written.push(self.tags[at * S::WAYS + way]);
        self.written.truncate(written);
        self.tags[at * S::WAYS + way] = line;
        set.replace(rank, print);
        set.promote(rank, window.top.into(), event.is_write());
        self.policy.filled(way, miss);
        way
    }

    /// Returns the window of a rank. If all of a set is one window, nothing is looked up.
    #[inline(always)]
    fn window(&self, rank: Rank) -> RankWindow {
        let window = self.policy.window().map(|_| self.windows[rank as usize % self.windows.len()]);
        window.unwrap_or_default()
    }

    /// Counts writes in bulk, so that the look-ups of many lines overlap.
    #[inline(always)]
    fn count_writes(&mut self) {
        self.counts.writebacks += self.written.len() as u64;
        for line in self.written.drain(..) {
            self.writes.add(line);
        }
    }
}

const _: () = assert!(BANKS.is_power_of_two());
