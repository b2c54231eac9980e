//! What an owner with all services counts, compared with docs/metrics.md.

use std::collections::BTreeMap;
use std::fs::File;

use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_owner::{METRICS_PREFIX, MetricKind, PoolMemory, machine};
use ferrite_pool::layout::POOL_BYTES_MIN;
use ferrite_pool::{Claim, Format, Pool, claim};

use super::*;

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// The start of the names that the example's service counts, which only tests link.
const EXAMPLE: &str = "counters_";

/// The owner of a new pool, in the file `path`.
fn owner(path: &std::path::Path) -> PoolOwner {
    File::create(path).and_then(|file| file.set_len(POOL_BYTES_MIN)).expect("a file");
    let Ok(Claim::Ours(lock)) = claim(path) else { panic!("no other process has it") };
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let memory = Mapped::map(lock.file().try_clone().expect("a descriptor"), &options).expect("memory");
    Pool::create(&memory, &Format { uuid: [1; 16], boot_id: machine::boot_id().expect("read") }).expect("a pool");
    drop(memory);
    let memory = PoolMemory::map(&lock, Some(Guard::None)).expect("mapped");
    PoolOwner::open(lock, memory, &registry()).expect("it opens")
}

/// Returns the names and kinds in the tables of the page.
fn documented() -> BTreeMap<String, String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter_map(|(name, rest)| Some((name.strip_prefix(METRICS_PREFIX)?, rest.split(' ').next()?)));
    rows.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

#[test]
fn each_metric_is_documented_and_each_documented_metric_exists() {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = owner(&folder.path().join("pool")).metrics();
    let metrics: Vec<_> = metrics.iter().filter(|metric| !metric.name.starts_with(EXAMPLE)).collect();
    let counted: BTreeMap<String, String> =
        metrics.iter().map(|metric| (metric.name.clone(), format!("{:?}", metric.kind).to_lowercase())).collect();
    assert_eq!(counted.len(), metrics.len(), "two metrics have one name");
    assert_eq!(counted, documented(), "left: counted; right: docs/metrics.md");
    for metric in metrics {
        let is_named_so = match metric.kind {
            MetricKind::Counter => metric.name.ends_with("_total"),
            MetricKind::Histogram => metric.name.ends_with("_seconds"),
            MetricKind::Gauge => !metric.name.ends_with("_total"),
        };
        assert!(is_named_so && !metric.help.is_empty() && !metric.help.ends_with('.'), "{metric:?}");
    }
}
