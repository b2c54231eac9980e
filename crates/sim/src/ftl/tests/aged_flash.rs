//! Aged drives in virtual time: their counts are those of the scheme, and their speed follows from the counts.

use std::sync::Arc;

use ferrite_disk::{Access, Clock, Disk, Op, RamDisk, Request, SsdDisk, SsdProfile, VirtualClock, Wait, WriteCache};
use ferrite_memory::Span;

use super::super::{
    AgedFlash, DriveSpec, FillOrder, FlashCounts, FlashFigures, FlashFill, FlashShape, FlashTiming, FtlScheme,
    HostPage, VictimChoice,
};
use super::Random;
use crate::split_mix::SplitMix;

const SIZE: u64 = 32 << 20;
const PAGE: u64 = 4096;
const PAGES: u32 = (SIZE / PAGE) as u32;
const BLOCK: u64 = 256 << 10;
const PAGE_LEVEL: FtlScheme = FtlScheme::Page(VictimChoice::Greedy);
const SCHEMES: [FtlScheme; 2] = [PAGE_LEVEL, FtlScheme::Fast { log_blocks: None }];
const RANDOM: FlashFill = FlashFill { percent: 100, order: FillOrder::Random };
const EMPTY: FlashFill = FlashFill { percent: 0, order: FillOrder::Random };

/// Returns the paper's drive: pages of 4 KiB, blocks of 256 KiB, 10 % more of them than the host sees.
fn spec(scheme: FtlScheme) -> DriveSpec {
    let like = FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages: 64, page_bytes: 4096 };
    let shape = FlashShape::of_bytes(SIZE, 10.0, like).expect("a drive");
    DriveSpec { scheme, shape, timing: FlashTiming::default() }
}

fn flash(scheme: FtlScheme, fill: FlashFill, seed: u64) -> AgedFlash {
    AgedFlash::new(spec(scheme), fill, seed).expect("a drive")
}

/// The X25-E whose controller and link take no time, so that its channels are what bounds it.
fn profile(cache: WriteCache) -> SsdProfile {
    SsdProfile { command_ns: 0, link_bytes_per_s: u64::MAX, cache, ..SsdProfile::x25e() }
}

/// A disk over an aged drive, or over a fresh one, in virtual time.
struct Stage {
    disk: SsdDisk<RamDisk>,
    clock: Arc<VirtualClock>,
    flash: Option<AgedFlash>,
}

fn stage(flash: Option<AgedFlash>, cache: WriteCache) -> Stage {
    let (inner, clock) = (RamDisk::new(SIZE), Arc::new(VirtualClock::default()));
    let disk = match flash.clone() {
        Some(flash) => SsdDisk::aged(inner, &profile(cache), flash, Arc::clone(&clock), 1),
        None => SsdDisk::new(inner, &profile(cache), Arc::clone(&clock), 1),
    };
    Stage { disk, clock, flash }
}

impl Stage {
    fn took_ns(&self, work: impl FnOnce(&SsdDisk<RamDisk>)) -> u64 {
        let before_ns = self.clock.now_ns();
        work(&self.disk);
        self.clock.now_ns() - before_ns
    }

    fn figures(&self) -> FlashFigures {
        self.flash.as_ref().expect("an aged drive").figures().expect("every page is where the layer says")
    }

    fn write(&self, page: u32) {
        self.disk.write(u64::from(page) * PAGE, &[1; PAGE as usize], Access::Cached).expect("written");
    }

    /// Writes `pages` with 32 requests in flight, and returns the time for each.
    fn write_all_ns(&self, pages: impl Iterator<Item = u32>) -> f64 {
        let mut queue = self.disk.queue().expect("a queue").expect("drives have queues");
        let (mut completions, mut count) = (Vec::new(), 0.0);
        let took_ns = self.took_ns(|_| {
            for page in pages {
                count += 1.0;
                let span = Span::new(u64::from(page) * PAGE, PAGE);
                let op = Op::Write(Access::Cached);
                queue.submit(Request { token: 0, op, span, buffer: vec![1; PAGE as usize] });
                while queue.in_flight() >= 32 {
                    queue.collect(Wait::Forever, &mut completions).expect("collected");
                }
            }
            while queue.in_flight() > 0 {
                queue.collect(Wait::Forever, &mut completions).expect("collected");
            }
        });
        took_ns as f64 / count
    }
}

fn random_pages(seed: u64, count: usize) -> impl Iterator<Item = u32> {
    let mut random = Random(seed);
    std::iter::repeat_with(move || random.below(PAGES)).take(count)
}

/// TL5, SS6, SS7: the drive counts what the scheme counts for the same writes and trims, from the same state.
#[test]
fn tl5_an_aged_drive_counts_what_its_scheme_counts() {
    for scheme in SCHEMES {
        let mut plain = spec(scheme).build().expect("a drive");
        (0..PAGES / 2).for_each(|page| plain.write(HostPage(page)).expect("written"));
        let mut fill = SplitMix(7);
        for _ in 0..plain.shape().flash_pages() {
            plain.write(HostPage(fill.below(u64::from(PAGES / 2)) as u32)).expect("written");
        }
        let before = plain.counts();
        let aged = stage(Some(flash(scheme, FlashFill { percent: 50, ..RANDOM }, 7)), WriteCache::Off);
        for (i, page) in random_pages(3, 6000).enumerate() {
            if i % 16 == 0 {
                let pages = page..(page + 40).min(PAGES);
                pages.clone().for_each(|page| plain.trim(HostPage(page)).expect("trimmed"));
                let span = Span::new(u64::from(page) * PAGE, pages.len() as u64 * PAGE);
                aged.disk.trim(span, Access::Cached).expect("trimmed");
            }
            plain.write(HostPage(page)).expect("written");
            aged.write(page);
        }
        let (figures, FlashCounts { copied_pages, erases, full_merges, .. }) = (aged.figures(), plain.counts());
        let counted = (copied_pages - before.copied_pages, erases - before.erases, full_merges - before.full_merges);
        assert_eq!((figures.copied_pages, figures.erases, figures.full_merges), counted, "{scheme:?}");
        assert!(figures.host_writes == 6000 && figures.trimmed_pages > 10_000 && erases > before.erases, "{scheme:?}");
        assert_eq!(figures.wear, plain.figures().expect("sound").wear, "{scheme:?}");
    }
}

/// SS6: a drive that was never written has the times of its profile until it erases for the first time.
#[test]
fn an_empty_drive_has_the_speed_of_its_profile() {
    let (aged, fresh) = (stage(Some(flash(PAGE_LEVEL, EMPTY, 1)), WriteCache::Off), stage(None, WriteCache::Off));
    let times = [&aged, &fresh].map(|stage| stage.write_all_ns(random_pages(5, 8000)));
    assert!(times[0] == times[1] && aged.figures().erases == 0, "{times:?}");
}

/// SS6: in the steady state of random writes a drive is slower by what its copies and erases take, which is about its
/// write amplification.
#[test]
fn random_writes_are_slower_by_the_write_amplification() {
    for (scheme, cache) in SCHEMES.into_iter().zip([WriteCache::Volatile(256 << 10), WriteCache::Off]) {
        let (aged, fresh) = (stage(Some(flash(scheme, RANDOM, 1)), cache), stage(None, cache));
        let [aged_ns, fresh_ns] = [&aged, &fresh].map(|stage| stage.write_all_ns(random_pages(9, 8000)));
        let FlashFigures { host_writes, copied_pages, erases, write_amplification, .. } = aged.figures();
        let SsdProfile { read_ns, program_ns, erase_ns, .. } = SsdProfile::x25e();
        let work_ns = host_writes * program_ns + copied_pages * (read_ns + program_ns) + erases * erase_ns;
        let expected_ns = work_ns as f64 / SsdProfile::x25e().channels as f64 / host_writes as f64;
        let slower = aged_ns / fresh_ns;
        assert!(write_amplification > 4.0, "{scheme:?}: {write_amplification}");
        assert!((0.95..1.05).contains(&(aged_ns / expected_ns)), "{scheme:?}: {aged_ns} ns, not {expected_ns}");
        assert!((0.9..1.25).contains(&(slower / write_amplification)), "{scheme:?}: {slower}, {write_amplification}");
    }
}

/// SS7: whole blocks that are trimmed before they are written again leave nothing to copy: on any drive if they are
/// written in order, and in any order if they lie at the flash's blocks.
#[test]
fn whole_blocks_with_trims_are_written_at_about_the_fresh_speed() {
    let in_blocks = FlashFill { percent: 100, order: FillOrder::Sequential };
    for (scheme, fill, steps) in SCHEMES.into_iter().flat_map(|scheme| [(scheme, RANDOM, 1), (scheme, in_blocks, 97)]) {
        let cache = WriteCache::Volatile(256 << 10);
        let (aged, fresh) = (stage(Some(flash(scheme, fill, 1)), cache), stage(None, cache));
        let pass = |stage: &Stage| {
            stage.took_ns(|disk| {
                for i in 0..SIZE / BLOCK {
                    let at = i * steps % (SIZE / BLOCK) * BLOCK;
                    disk.trim(Span::new(at, BLOCK), Access::Cached).expect("trimmed");
                    disk.write(at, &vec![1; BLOCK as usize], Access::Cached).expect("written");
                }
            })
        };
        // The first passes replace what was written at random.
        let _ = pass(&aged) + pass(&aged);
        let before = aged.figures();
        let (aged_ns, fresh_ns) = (pass(&aged), pass(&fresh));
        let copied = aged.figures().copied_pages - before.copied_pages;
        assert!(copied < u64::from(PAGES) / 50, "{scheme:?}: {copied} pages copied");
        assert!(aged_ns < fresh_ns * 115 / 100, "{scheme:?}: {aged_ns} ns, {fresh_ns} on a fresh drive");
    }
}

/// SS7: space that the host does not need makes victims emptier.
#[test]
fn a_trim_saves_copies() {
    let copied_per_erase = |trims: bool| {
        let aged = stage(Some(flash(PAGE_LEVEL, RANDOM, 1)), WriteCache::Off);
        if trims {
            aged.disk.trim(Span::new(SIZE / 4, SIZE / 4), Access::Cached).expect("trimmed");
        }
        aged.write_all_ns(random_pages(9, 8000).map(|page| page / 4));
        aged.figures().copied_per_erase
    };
    let (without, with) = (copied_per_erase(false), copied_per_erase(true));
    assert!(with < without * 0.7, "{with} pages an erase, {without} without a trim");
}

/// SS6, SS1: a read behind a copy or an erase waits for its channel.
#[test]
fn reads_beside_random_writes_wait_longer_on_an_aged_drive() {
    let cache = WriteCache::Volatile(256 << 10);
    let longest_ns = |stage: &Stage| {
        let (mut pages, mut longest_ns) = (random_pages(9, 4000), 0);
        while let Some(page) = pages.next() {
            stage.write(page);
            if let Some(page) = pages.next() {
                let read_at = u64::from(page) * PAGE;
                longest_ns = longest_ns.max(stage.took_ns(|disk| disk.read(read_at, &mut [0; 4096]).expect("read")));
            }
        }
        longest_ns
    };
    let aged_ns = longest_ns(&stage(Some(flash(PAGE_LEVEL, RANDOM, 1)), cache));
    let fresh_ns = longest_ns(&stage(None, cache));
    let SsdProfile { program_ns, read_ns, erase_ns, .. } = SsdProfile::x25e();
    assert!(fresh_ns <= (program_ns + 2 * read_ns) * 12 / 10, "{fresh_ns} on a fresh drive");
    assert!(aged_ns > erase_ns, "{aged_ns}: no read waited for an erase");
}

/// TL5, SD3: a run repeats by its seed, and another seed fills the drive in another order.
#[test]
fn tl5_the_state_of_a_drive_follows_from_its_seed() {
    let run = |seed| {
        let aged = stage(Some(flash(PAGE_LEVEL, RANDOM, seed)), WriteCache::Off);
        let took_ns = aged.write_all_ns(random_pages(9, 2000));
        (took_ns, aged.figures().copied_pages)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// A sequentially filled drive has nothing to copy at first: its invalid pages come from the host's writes alone.
#[test]
fn the_order_of_the_filling_decides_the_first_copies() {
    let copied = |order| {
        let aged = stage(Some(flash(PAGE_LEVEL, FlashFill { percent: 100, order }, 1)), WriteCache::Off);
        aged.write_all_ns(0..1000);
        aged.figures().copied_pages
    };
    let (sequential, random) = (copied(FillOrder::Sequential), copied(FillOrder::Random));
    assert!(sequential == 0 && random > 2000, "{sequential}, {random}");
}
