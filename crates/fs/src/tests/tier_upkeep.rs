//! Trims, and what a tier counts.

use ferrite_pool::Freeze;
use ferrite_pool::layout::{CHUNK, PAGE};

use super::support::{assert_sound, content, run_steps};
use super::tiers::{TieredWorld, bytes, make, send_away};
use crate::Ino;
use crate::format::segment::{SEGMENT_BYTES, SEGMENT_PAGES};

/// TI14: what is freed is trimmed when nothing else is to be done, neighbours together, and once.
#[test]
fn ti14_freed_segments_are_trimmed_in_the_background() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let (kept, gone) = (make(&fs, "kept"), make(&fs, "gone"));
    fs.write(kept, 0, &bytes(1, 100_000)).expect("written");
    send_away(&fs);
    fs.write(gone, 0, &bytes(2, 4 << 20)).expect("written");
    send_away(&fs);
    let before = fs.tier_stats().expect("a tier");
    assert_eq!(before.segments.untrimmed, 0);
    fs.unlink(Ino::ROOT, b"gone").expect("removed");
    // The clock ticks at each look.
    (0..2000).for_each(|_| run_steps(&fs));
    let after = fs.tier_stats().expect("a tier");
    let segments = (4_u64 << 20).div_ceil(PAGE).div_ceil(SEGMENT_PAGES);
    assert_eq!(after.segments.untrimmed, 0);
    assert_eq!(after.trims.bytes, segments * SEGMENT_BYTES);
    assert!(after.trims.count < segments, "{after:?}");
    assert!(content(&fs, kept).expect("read") == bytes(1, 100_000));
    assert_sound(&fs);
}

/// TI14, TI11: no trim in the background makes a backup useless before the next segment would.
#[test]
fn ti14_a_backup_keeps_what_the_file_system_freed() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    fs.write(make(&fs, "gone"), 0, &bytes(2, 1 << 20)).expect("written");
    send_away(&fs);
    fs.shared.freeze();
    fs.shared.thaw();
    fs.unlink(Ino::ROOT, b"gone").expect("removed");
    (0..2000).for_each(|_| run_steps(&fs));
    assert_eq!(fs.tier_stats().expect("a tier").trims.count, 0);
    assert!(fs.trim_tier(&mut |_| true).expect("asked for") > 0);
}

/// A trim that a user asks for takes all that is free, and can be stopped.
#[test]
fn ti14_a_trim_takes_all_that_is_free() {
    let world = TieredWorld::new(16 * CHUNK, 16 << 20);
    let fs = world.open();
    let kept = make(&fs, "kept");
    fs.write(kept, 0, &bytes(1, 1 << 20)).expect("written");
    send_away(&fs);
    let stats = fs.tier_stats().expect("a tier");
    let stopped = fs.trim_tier(&mut |_| false).expect_err("stopped");
    assert!(stopped.to_string().contains("the trim"), "{stopped}");
    assert_eq!(fs.trim_tier(&mut |_| true).expect("trimmed"), stats.segments.free * SEGMENT_BYTES);
    assert_eq!(stats.destaged_pages, (1 << 20) / PAGE);
    assert_eq!(stats.pages.away, (1 << 20) / PAGE);
    assert!(content(&fs, kept).expect("read") == bytes(1, 1 << 20));
    assert_eq!(fs.tier_stats().expect("a tier").reads.bytes, 1 << 20);
}
