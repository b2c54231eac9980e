//! The description of an open cache.

use std::sync::atomic::Ordering;

use ferrite_owner::{SurvivalAnswer, SurvivalReport, SurvivalState};
use ferrite_pool::show_uuid;

use crate::cache::Cache;
use crate::cache_core::CacheCore;
use crate::cache_counters::BypassReason;
use crate::cache_layout::BLOCK;
use crate::cache_members::{CacheDisk, SsdState};
use crate::cache_reports::{
    AroundReport, BytesReport, CacheState, CacheStats, CollectReport, DestageReport, DiskStats, HitReport,
    RequestReport, SsdStats,
};
use crate::cache_settings::CopyRule;
use crate::cache_worker::CacheWorker;
use crate::leaving::free_lebs;

impl Cache {
    /// Returns what the cache is and has done since it was opened. `failure` is the error with which its background work
    /// ended.
    pub fn stats(&self, failure: Option<String>) -> CacheStats {
        let core = &self.core;
        let counters = &core.counters;
        // The worker may be waiting while the pool stands still.
        let worker = self.worker.try_lock();
        let hits = HitReport {
            read_buffer: counters.buffer_hits.get(),
            read_ssd: counters.ssd_hits.get(),
            write: counters.write_hits.get(),
        };
        let (read_hits, misses) = (hits.read_buffer + hits.read_ssd, counters.misses.get());
        let ssds: Vec<SsdStats> = ssd_stats(core, worker.as_deref());
        CacheStats {
            name: core.name.clone(),
            state: if failure.is_some() { CacheState::Failed } else { CacheState::Open },
            why: failure,
            settings: core.settings(),
            leb_bytes: core.memory.layout().leb_bytes.into(),
            survives: self.survives(),
            requests: RequestReport {
                reads: counters.reads.get(),
                writes: counters.writes.get(),
                flushes: counters.flushes.get(),
                trims: counters.trims.get(),
                zeroings: counters.zeroings.get(),
            },
            hits,
            misses,
            hit_ratio: ratio(read_hits, read_hits + misses),
            fills: counters.fills.get(),
            fills_overtaken: counters.fills_overtaken.get(),
            not_admitted: counters.not_admitted.get(),
            around: around(core),
            bytes: block_bytes(core),
            oldest_dirty_s: worker.as_deref().and_then(|worker| oldest_dirty_s(core, worker)),
            destage: DestageReport {
                pages: counters.destaged_pages.get(),
                runs: counters.destage_runs.get(),
                run_bytes_mean: (counters.destaged_pages.get() * BLOCK)
                    .checked_div(counters.destage_runs.get())
                    .unwrap_or(0),
                pages_per_second: worker.as_deref().map(|worker| worker.rate.pages_per_second()),
                errors: counters.destage_errors.get(),
            },
            collect: CollectReport {
                lebs: counters.collected_lebs.get(),
                moved: counters.moved_pages.get(),
                evicted: counters.evicted_pages.get(),
                repaired: counters.repaired_pages.get(),
            },
            sealed_lebs: counters.sealed_lebs.get(),
            ssd_bytes_per_app_byte: ratio(
                ssds.iter().map(|ssd| ssd.inserts).sum::<u64>() * u64::from(core.memory.layout().leb_bytes),
                counters.written_bytes.get(),
            ),
            stalls: counters.stalls.get(),
            recovery: self.recovery(),
            ssds,
            disks: core.disks.iter().map(|disk| disk_stats(core, disk)).collect(),
        }
    }

    /// Returns which failures dirty data survives: those that the pool and all its SSDs do.
    pub fn survives(&self) -> SurvivalReport {
        let addresses: Vec<String> = self.core.ssds.all().iter().map(|ssd| ssd.address.lock().clone()).collect();
        weakest(SurvivalReport::of(&self.pool), addresses.iter().map(|address| self.options.opener.survival(address)))
    }

    /// Returns the number of SSDs that are read and written.
    pub fn ssds_online(&self) -> u64 {
        self.core.ssds.all().iter().filter(|ssd| ssd.is_writable()).count() as u64
    }

    /// Returns the reasons why disks are not served, each with the name of its disk.
    pub fn refused_disks(&self) -> Vec<String> {
        let refused = self.core.disks.iter().filter(|disk| disk.disk().is_none());
        refused.map(|disk| format!("{}: {}", disk.config.export, disk.why())).collect()
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the weakest answers of `pool` and of `ssds`.
pub(crate) fn weakest(
    pool: SurvivalReport,
    ssds: impl IntoIterator<Item = ferrite_memory::Survival>,
) -> SurvivalReport {
    let rank = |state: SurvivalState| match state {
        SurvivalState::No => 0,
        SurvivalState::NotKnown => 1,
        SurvivalState::Yes => 2,
    };
    let weaker = |one: SurvivalAnswer, of_ssd: ferrite_memory::Claim| {
        let other = SurvivalAnswer::from(of_ssd);
        if rank(other.state) < rank(one.state) {
            SurvivalAnswer { why: format!("the SSDs: {}", other.why), ..other }
        } else {
            one
        }
    };
    ssds.into_iter().fold(pool, |known, ssd| SurvivalReport {
        process_crash: weaker(known.process_crash, ssd.process_crash),
        kernel_crash: weaker(known.kernel_crash, ssd.kernel_crash),
        power_loss: weaker(known.power_loss, ssd.power_loss),
        ..known
    })
}

fn around(core: &CacheCore) -> AroundReport {
    let bytes = |reason: BypassReason| core.counters.around_bytes[reason as usize].get();
    AroundReport {
        sequential: bytes(BypassReason::Sequential),
        too_dirty: bytes(BypassReason::TooDirty),
        buffers_full: bytes(BypassReason::BuffersFull),
        mode: bytes(BypassReason::Mode),
    }
}

fn ssd_stats(core: &CacheCore, worker: Option<&CacheWorker>) -> Vec<SsdStats> {
    let of = |ssd: std::sync::Arc<crate::cache_members::CacheSsd>| {
        let (state, why) = ssd.state();
        let count = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
        SsdStats {
            id: ssd.id,
            address: ssd.address.lock().clone(),
            uuid: show_uuid(&ssd.uuid),
            state,
            why: Some(why).filter(|why| !why.is_empty()),
            lebs: ssd.lebs,
            free: worker.map(|worker| free_lebs(worker, ssd.id)),
            removal_left_bytes: worker
                .filter(|_| ssd.leaves.load(Ordering::SeqCst))
                .map(|worker| worker.left_on(ssd.id) as u64 * u64::from(core.memory.layout().leb_bytes)),
            inserts: count(&ssd.inserts),
            read_bytes: count(&ssd.read_bytes),
            written_bytes: count(&ssd.written_bytes),
            trimmed_bytes: count(&ssd.trimmed_bytes),
            errors: count(&ssd.error_count),
            mismatches: count(&ssd.mismatches),
        }
    };
    core.ssds.all().into_iter().map(of).collect()
}

fn disk_stats(core: &CacheCore, disk: &CacheDisk) -> DiskStats {
    let is_open = disk.disk().is_some();
    // No time limit ends a request to a disk, because only the disk has its data.
    let silent_ns = disk.silent_ns(core.clock.now_ns());
    let is_silent = silent_ns >= core.settings().ssd_timeout_ns;
    let silence = || format!("it has answered no request for {} s, and clients wait", silent_ns / 1_000_000_000);
    DiskStats {
        export: disk.config.export.clone(),
        address: disk.config.address.clone(),
        is_open,
        why: (!is_open).then(|| disk.why()).or_else(|| is_silent.then(silence)),
        size_bytes: disk.config.size,
        stamp: disk.config.stamp,
        data_at: disk.data_at(),
        reads: disk.reads.load(Ordering::Relaxed),
        writes: disk.writes.load(Ordering::Relaxed),
        errors: disk.errors.load(Ordering::Relaxed),
    }
}

/// Returns the age of the oldest LEB with dirty pages.
fn oldest_dirty_s(core: &CacheCore, worker: &CacheWorker) -> Option<u64> {
    let is_dirty = |table: u32| core.memory.table_state(table).dirty.load(Ordering::Relaxed) > 0;
    let oldest = worker.valid.values().find(|valid| is_dirty(valid.table))?;
    Some(core.clock.now_ns().saturating_sub(oldest.since_ns) / 1_000_000_000)
}

/// Counts the blocks by state, from the tables and slots as they are now.
fn block_bytes(core: &CacheCore) -> BytesReport {
    let mut pages = BytesReport::default();
    let (away, lost) = core.unreadable_pages();
    let ssds = core.ssds.all();
    let state = |id: u8| ssds.iter().find(|ssd| ssd.id == id).map(|ssd| ssd.state().0);
    let states: Vec<Option<SsdState>> = (0..=u8::MAX).map(state).collect();
    let wants_two = core.settings().copies != CopyRule::One;
    for table in 0..core.memory.tables() {
        let counts = core.memory.table_state(table);
        let (live, dirty) = (counts.live.load(Ordering::Relaxed), counts.dirty.load(Ordering::Relaxed));
        let (live, dirty) = (u64::from(live), u64::from(dirty));
        pages.clean += live.saturating_sub(dirty);
        let Some(places) = core.memory.table_places(table).filter(|_| dirty > 0) else { continue };
        let is_readable = |id: u8| matches!(states[usize::from(id)], Some(SsdState::Online | SsdState::Leaving));
        let readable = places.iter().flatten().filter(|place| is_readable(place.ssd)).count();
        pages.single += if wants_two && readable == 1 { dirty } else { 0 };
    }
    let live = core.slots.iter().filter(|slot| slot.live.load(Ordering::Relaxed));
    BytesReport {
        capacity: core.ssds.pages(core.memory.layout()) * BLOCK,
        clean: pages.clean * BLOCK,
        dirty: core.dirty.load(Ordering::Relaxed).max(0) as u64 * BLOCK,
        single: pages.single * BLOCK,
        away: away * BLOCK,
        lost: lost * BLOCK,
        buffered: live.count() as u64 * BLOCK,
    }
}
