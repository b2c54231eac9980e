//! Caches as lines for people.

use ferrite_cache::{CacheCheckReport, CacheReport, CacheState, CacheStats, DiskStats, SsdState, SsdStats, StampPlace};
use ferrite_owner::{SurvivalReport, SurvivalState};
use serde::Serialize;

use crate::duration;
use crate::size::{self, counted};

/// Returns the name of `value` in JSON.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the line of a cache in a list.
pub fn show_line(cache: &CacheReport) -> String {
    let (mode, why) = (word(&cache.mode), cache.why.as_deref().unwrap_or_default());
    let state = match (cache.state, cache.ssds_online.zip(cache.dirty_bytes)) {
        (CacheState::Incomplete, _) => "its creation did not end: `ferrite cache remove` removes it".into(),
        (CacheState::Failed, _) => format!("failed: {why}"),
        (_, Some((online, dirty))) => {
            format!("{mode}, {online} of {} online, {} dirty", counted(cache.ssds, "SSD"), size::show(dirty))
        }
        (_, None) => format!("{mode}, {}, not open", counted(cache.ssds, "SSD")),
    };
    let found = cache.recovery.map_or_else(String::new, |found| {
        let (blocks, dirty) = (counted(found.blocks, "block"), counted(found.dirty, "dirty one"));
        format!(", recovered {blocks} with {dirty}")
    });
    let disks: Vec<&str> = cache.disks.iter().map(String::as_str).filter(|disk| **disk != cache.name).collect();
    let disks = if disks.is_empty() { String::new() } else { format!(", before {}", disks.join(", ")) };
    let refused: String = cache.refused_disks.iter().map(|why| format!("  not served: {why}\n")).collect();
    format!("{:<20} {state}{found}{disks}\n{refused}", cache.name)
}

/// Returns the line that says what dirty data survives.
pub fn show_survival(survives: &SurvivalReport) -> String {
    let says = |what: &str, state: SurvivalState, why: &str| match state {
        SurvivalState::Yes => format!("{what}: yes"),
        SurvivalState::No => format!("{what}: NO ({why})"),
        SurvivalState::NotKnown => format!("{what}: not known ({why})"),
    };
    let (kernel, power) = (&survives.kernel_crash, &survives.power_loss);
    let when = if survives.when_flushed { ", when flushed" } else { "" };
    format!(
        "  dirty data survives a killed process: yes; {}; {}{when}\n",
        says("a kernel crash", kernel.state, &kernel.why),
        says("a power failure", power.state, &power.why)
    )
}

/// Returns the description of a cache.
pub fn show_stats(stats: &CacheStats) -> String {
    let failed = stats.why.as_ref().map(|why| format!("  FAILED: {why}\n")).unwrap_or_default();
    let parts = [
        format!("{}\n", stats.name),
        failed,
        show_settings(stats),
        show_survival(&stats.survives),
        show_blocks(stats),
        show_work(stats),
        stats.ssds.iter().map(show_ssd).collect(),
        stats.disks.iter().map(show_disk).collect(),
    ];
    parts.concat()
}

/// Returns the findings of a check.
pub fn show_check(report: &CacheCheckReport) -> String {
    let mut text: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    let more = report.found.saturating_sub(report.findings.len() as u64);
    if more > 0 {
        text += &format!("and {}\n", counted(more, "more finding"));
    }
    let sum = if report.is_sound() { "sound" } else { "NOT SOUND: see above" };
    text += &format!(
        "{sum}: {}, {} in buffers, {}; {} read from SSDs, {} compared with disks\n",
        counted(report.tables, "LEB"),
        counted(report.slots, "block"),
        counted(report.stamps, "stamp"),
        counted(report.pages_read, "page"),
        counted(report.blocks_compared, "block"),
    );
    let away = report.copies_away;
    text + &if away > 0 {
        format!("{} not read: their SSDs are not in use\n", counted(away, "LEB"))
    } else {
        String::new()
    }
}

fn show_settings(stats: &CacheStats) -> String {
    let set = &stats.settings;
    let bypass = if set.bypass_bytes == 0 { "never".into() } else { size::written(set.bypass_bytes) };
    let rate = set.destage_rate.map_or("auto".into(), |pages| pages.to_string());
    format!(
        "  mode {}, copies {}, policy {}, bypass {bypass}, LEBs of {}\n  dirty at most {} and {}, destage rate {rate}, \
         SSD timeout {}, grace {}, discard {}\n",
        word(&set.mode),
        word(&set.copies),
        word(&set.policy),
        size::written(stats.leb_bytes),
        duration::show_permille(set.dirty_max_permille),
        if set.dirty_age_ns == 0 { "of any age".into() } else { duration::show(set.dirty_age_ns) + " old" },
        duration::show(set.ssd_timeout_ns),
        duration::show(set.grace_ns),
        if set.discard { "on" } else { "off" },
    )
}

fn show_blocks(stats: &CacheStats) -> String {
    let bytes = &stats.bytes;
    let danger = [
        (bytes.single, "dirty with one copy"),
        (bytes.away, "dirty on missing SSDs"),
        (bytes.lost, "LOST: no copy can be read"),
    ];
    let danger: String = danger
        .iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, what)| format!("  {} {what}\n", size::show(*bytes)))
        .collect();
    let oldest = stats.oldest_dirty_s.map(|age| format!(", the oldest for {age} s")).unwrap_or_default();
    format!(
        "  holds {} clean and {} dirty{oldest} of {}; {} of it in the pool's buffers\n{danger}",
        size::show(bytes.clean),
        size::show(bytes.dirty),
        size::show(bytes.capacity),
        size::show(bytes.buffered),
    )
}

fn show_work(stats: &CacheStats) -> String {
    let (requests, hits, around) = (&stats.requests, &stats.hits, &stats.around);
    let ratio = stats.hit_ratio.map(|ratio| format!(", {:.1} % hits", ratio * 100.0)).unwrap_or_default();
    let written = stats.ssd_bytes_per_app_byte.map(|it| format!(", {it:.2} bytes on SSDs for each written byte"));
    let reasons = [
        ("sequential", around.sequential),
        ("too dirty", around.too_dirty),
        ("buffers full", around.buffers_full),
        ("mode", around.mode),
    ];
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(why, bytes)| format!("{} {why}", size::show(*bytes)))
        .collect();
    let around =
        if reasons.is_empty() { String::new() } else { format!("  around the cache: {}\n", reasons.join(", ")) };
    format!(
        "  {} reads, {} writes, {} flushes, {} trims, {} zeroings\n  blocks read: {} from buffers, {} from SSDs, {} from \
         disks{ratio}{}\n{around}  {} LEBs written, {} reclaimed with {} blocks moved; {} blocks destaged in {} writes\n",
        requests.reads,
        requests.writes,
        requests.flushes,
        requests.trims,
        requests.zeroings,
        hits.read_buffer,
        hits.read_ssd,
        stats.misses,
        written.unwrap_or_default(),
        stats.sealed_lebs,
        stats.collect.lebs,
        stats.collect.moved,
        stats.destage.pages,
        stats.destage.runs,
    )
}

/// Returns the lines of an SSD.
pub fn show_ssd(ssd: &SsdStats) -> String {
    let why = ssd.why.as_ref().filter(|_| ssd.state != SsdState::Online).map(|why| format!(" ({why})"));
    let left = ssd.removal_left_bytes.map(|left| format!(", leaving with {} to move", size::show(left)));
    let errors = ssd.errors + ssd.mismatches;
    let errors = if errors > 0 { format!(", {}", counted(errors, "error")) } else { String::new() };
    let free = ssd.free.map(|free| format!(", {free} free")).unwrap_or_default();
    format!(
        "  SSD {}  {}{}: {} LEBs{free}, {} read, {} written{errors}\n         {}\n",
        ssd.id,
        word(&ssd.state),
        why.unwrap_or_default() + &left.unwrap_or_default(),
        ssd.lebs,
        size::show(ssd.read_bytes),
        size::show(ssd.written_bytes),
        ssd.address
    )
}

/// Returns the lines of a disk.
pub fn show_disk(disk: &DiskStats) -> String {
    let state = match &disk.why {
        None => "served".to_string(),
        Some(why) if disk.is_open => format!("served, but {why}"),
        Some(why) => format!("NOT served ({why})"),
    };
    let stamp = match disk.stamp {
        StampPlace::Head => "stamp at its head",
        StampPlace::Tail => "stamp at its tail",
        StampPlace::None => "no stamp",
    };
    let errors = if disk.errors > 0 { format!(", {}", counted(disk.errors, "error")) } else { String::new() };
    format!(
        "  disk {}  {state}: {}, {stamp}, {} reads, {} writes{errors}\n         {}\n",
        disk.export,
        size::show(disk.size_bytes),
        disk.reads,
        disk.writes,
        disk.address
    )
}
