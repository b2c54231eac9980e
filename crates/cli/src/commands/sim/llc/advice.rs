//! The advice if all policies give the same result.

use ferrite_sim::cache::{CacheShape, PolicyFigures, StudyReport};

use crate::size;

/// The ratio of the trace's lines to the smallest cache that is worth a try.
const TIMES: u64 = 4;

/// Returns why the policies do not differ, and the advice. `first_level` is the size of the first-level cache, if the
/// trace passes one.
pub fn advice(report: &StudyReport, llc: CacheShape, first_level: Option<u64>) -> Option<String> {
    let lru = report.policies.first()?;
    let did = |one: &PolicyFigures| (one.read_misses, one.write_misses, one.writebacks);
    if report.policies.len() < 2 || report.events == 0 || report.policies.iter().any(|one| did(one) != did(lru)) {
        return None;
    }
    let line_bytes = u64::from(llc.line_bytes);
    let (lines, ways) = (lru.misses(), u64::from(llc.ways));
    if lines > llc.bytes / line_bytes {
        return Some("no policy differs from LRU, and not all lines fit in the last level: --llc names another".into());
    }
    let fits = format!("no policy differs from LRU, for all {lines} lines fit in the last level");
    let Some(sets) = (lines / TIMES / ways).checked_ilog2().map(|bits| 1_u64 << bits) else {
        return Some(format!("{fits}: a longer trace shows more"));
    };
    let smaller = sets * ways * line_bytes;
    let set_bytes = 2 * line_bytes;
    let first_sets = (smaller / TIMES / set_bytes).checked_ilog2().map_or(1, |bits| 1 << bits);
    let first = first_level.filter(|bytes| *bytes > first_sets * set_bytes);
    let first = first.map_or_else(String::new, |_| format!(" --l1 {}:2", size::written(first_sets * set_bytes)));
    Some(format!("{fits}: --llc {}:{ways}{first} has one that they do not fit in", size::written(smaller)))
}
