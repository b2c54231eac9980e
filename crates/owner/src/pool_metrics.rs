//! The metrics of a pool as a whole.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferrite_pool::{Pool, Recovery, SpaceUsage, TagKind};
use parking_lot::Mutex;

use crate::{Metric, ServiceRegistry, space_bytes};

/// Returns the name of `kind`, or of its service if the pool has no name for it.
fn kind_name(registry: &ServiceRegistry, kind: TagKind) -> String {
    let service = registry.of(kind).filter(|_| !kind.is_known());
    service.map_or_else(|| kind.name().into(), |service| service.name().into())
}

/// The history of a pool since its owner opened it.
pub(crate) struct PoolHistory {
    opened: Instant,
    recovery: Recovery,
    recovery_time: Duration,
    last_image: Mutex<Option<Instant>>,
}

impl PoolHistory {
    /// Opens a pool by `open`. Returns the pool with its history.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn begin<P, E>(open: impl FnOnce() -> Result<(P, Recovery), E>) -> Result<(P, Self), E> {
        let begun = Instant::now();
        let (pool, recovery) = open()?;
        let opened = Instant::now();
        Ok((pool, Self { opened, recovery, recovery_time: opened - begun, last_image: Mutex::default() }))
    }

    /// Returns what opening found.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Notes that an image of the pool was written now.
    pub fn note_image(&self) {
        *self.last_image.lock() = Some(Instant::now());
    }
}

/// Returns the metrics of `pool`.
pub(crate) fn pool_metrics(pool: &Pool, registry: &ServiceRegistry, history: &PoolHistory) -> Vec<Metric> {
    let SpaceUsage { total_bytes, free_bytes, normal_bytes, super_bytes, meta_bytes } = pool.usage();
    let mut space = Metric::gauge("pool_space_bytes", "Bytes of the pool by their use");
    for (used_as, bytes) in
        [("free", free_bytes), ("pages", normal_bytes), ("superpages", super_bytes), ("tables", meta_bytes)]
    {
        space.add([("use", used_as)], bytes);
    }
    let mut tags = Metric::gauge("pool_tags", "Tags in the pool by their kind");
    let mut tag_space = Metric::gauge("pool_tag_space_bytes", "Bytes of the pool that tags of a kind take");
    let mut kinds = BTreeMap::<String, (u64, u64)>::new();
    for tag in pool.tags() {
        let (count, bytes) = kinds.entry(kind_name(registry, tag.kind)).or_default();
        *count += 1;
        *bytes += space_bytes(&tag);
    }
    for (kind, (count, bytes)) in &kinds {
        tags.add([("kind", kind)], *count);
        tag_space.add([("kind", kind)], *bytes);
    }
    let mut age = Metric::gauge(
        "pool_image_age_seconds",
        "Seconds since this owner wrote the last whole image of the pool; no sample before the first",
    );
    if let Some(written) = *history.last_image.lock() {
        age.add([], written.elapsed().as_secs_f64());
    }
    vec![
        Metric::gauge("pool_size_bytes", "Bytes of the pool").of(total_bytes),
        space,
        tags,
        tag_space,
        Metric::gauge("pool_open_seconds", "Seconds since this owner opened the pool")
            .of(history.opened.elapsed().as_secs_f64()),
        Metric::gauge("pool_recovery_seconds", "Seconds that opening the pool took, with its recovery")
            .of(history.recovery_time.as_secs_f64()),
        Metric::gauge("pool_recovered", "1 if the owner before this one did not close the pool in order, else 0")
            .of(u64::from(!history.recovery.clean)),
        Metric::gauge("pool_replayed_transactions", "Transactions that the recovery completed")
            .of(history.recovery.replay.transactions),
        age,
    ]
}
