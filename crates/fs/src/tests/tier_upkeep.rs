//! Trims, what a tier counts, and SSDs that join and leave a file system that is used.

use std::sync::Arc;

use ferrite_crash::LyingMemory;
use ferrite_disk::{Access, Disk, RamDisk};
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Freeze, Pool};

use super::support::{BOOT, NAME, assert_sound, beside, content, options, run_steps};
use super::tiers::{TieredWorld, bytes, make, send_away};
use crate::format::segment::{SEGMENT_BYTES, SEGMENT_PAGES};
use crate::store::tier_members::{TierDisk, TierOpening};
use crate::{FileSystem, Ino};

/// TI14: freed segments are trimmed when the tier has no other work, neighbours together, and once.
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

fn second(bytes: u64) -> TierDisk {
    TierDisk { uuid: *b"the uuid of two.", address: "second".into(), disk: Arc::new(RamDisk::new(bytes)) }
}

fn open(memory: &Arc<LyingMemory>, ssds: &[TierDisk]) -> crate::Result<Arc<FileSystem>> {
    let find = |address: &str| ssds.iter().find(|ssd| ssd.address == address).map(|ssd| Arc::clone(&ssd.disk));
    let disk = |address: &str| find(address).ok_or_else(|| "there is none".into());
    let pool = Arc::new(Pool::open(memory.clone(), BOOT)?.0);
    FileSystem::open_tiered(pool, NAME, options(None), &TierOpening { open: &disk, nonce: 6 })
}

/// TI15, TI16: SSDs join and leave beside a writer, and the file system is one without a tier in the end.
#[test]
fn ti15_ti16_ssds_join_and_leave_while_files_are_written() {
    let world = TieredWorld::new(16 * CHUNK, 16 << 20);
    let (fs, second) = (world.open(), second(16 << 20));
    let kept = make(&fs, "kept");
    fs.write(kept, 0, &bytes(1, 3 << 20)).expect("written");
    send_away(&fs);
    let changed = make(&fs, "changed");
    let write = || {
        for round in 0..40 {
            fs.write(changed, round % 4 * 20_000, &bytes(round, 20_000)).expect("written");
            fs.drain_tier().expect("drained");
        }
    };
    beside(&[&|| assert!(content(&fs, kept).expect("read") == bytes(1, 3 << 20))], || {
        std::thread::scope(|scope| {
            scope.spawn(write);
            fs.tier_upkeep().add_ssds(std::slice::from_ref(&second), None, 9).expect("added");
            fs.tier_upkeep().remove_ssd("ssd", &mut |_| true).expect("removed");
        });
    });
    let all = content(&fs, changed).expect("read");
    assert!((36..40).all(|round| all[round as usize % 4 * 20_000..][..20_000] == bytes(round, 20_000)));
    assert_eq!(fs.tier().expect("a tier").ssds.len(), 1);
    assert_sound(&fs);
    let mut head = vec![0; 1 << 20];
    world.ssd.disk.read(0, &mut head).expect("read");
    assert!(head.iter().all(|byte| *byte == 0), "it can be given to another pool");
    drop(fs);
    let fs = open(&world.memory, std::slice::from_ref(&second)).expect("the first is not needed");
    assert!(content(&fs, kept).expect("read") == bytes(1, 3 << 20));
    fs.tier_upkeep().remove_ssd("second", &mut |_| true).expect("the pool has room");
    assert_eq!(fs.pool().members().expect("read").len(), 0);
    assert_sound(&fs);
    drop(fs);
    let fs = open(&world.memory, &[]).expect("it has no SSDs");
    assert!(fs.tier().is_none() && content(&fs, kept).expect("read") == bytes(1, 3 << 20));
    assert!(content(&fs, changed).expect("read") == all);
}

/// TI16: an SSD is not removed if its content has no other room, with the numbers; and a removal that was stopped goes on.
#[test]
fn ti16_a_removal_is_refused_without_room_and_goes_on_when_it_was_stopped() {
    let world = TieredWorld::new(16 * CHUNK, 64 << 20);
    let fs = world.open();
    let files: Vec<Ino> = (0..40).map(|number| make(&fs, &format!("{number}"))).collect();
    for (number, file) in (0..).zip(&files) {
        fs.write(*file, 0, &bytes(number, 1 << 20)).expect("written");
    }
    send_away(&fs);
    let refused = fs.tier_upkeep().remove_ssd("ssd", &mut |_| true).expect_err("no room").to_string();
    assert!(refused.contains("41943040 bytes") && refused.contains("in the pool"), "{refused}");
    let second = second(64 << 20);
    fs.tier_upkeep().add_ssds(std::slice::from_ref(&second), None, 9).expect("added");
    let stopped = fs.tier_upkeep().remove_ssd("ssd", &mut |_| false).expect_err("stopped").to_string();
    assert!(stopped.contains("leaving"), "{stopped}");
    drop(fs);
    let fs = open(&world.memory, &[world.ssd.clone(), second.clone()]).expect("it opens");
    fs.tier_upkeep().remove_ssd("ssd", &mut |_| true).expect("removed");
    let unknown = fs.tier_upkeep().remove_ssd("ssd", &mut |_| true).expect_err("it is gone").to_string();
    assert!(unknown.contains("second"), "{unknown}");
    for (number, file) in (0..).zip(&files) {
        assert!(content(&fs, *file).expect("read") == bytes(number, 1 << 20));
    }
    assert_sound(&fs);
}

/// TI17: an SSD that became larger has more room, also when the file system is opened again.
#[test]
fn ti17_an_ssd_grows_while_files_are_used() {
    let world = TieredWorld::new(16 * CHUNK, 8 << 20);
    let fs = world.open();
    let kept = make(&fs, "kept");
    fs.write(kept, 0, &bytes(1, 3 << 20)).expect("written");
    send_away(&fs);
    let (mut all, larger) = (vec![0; 8 << 20], Arc::new(RamDisk::new(160 << 20)));
    world.ssd.disk.read(0, &mut all).expect("read");
    let other: Arc<dyn Disk> = larger.clone();
    assert!(fs.tier_upkeep().grow_ssd("ssd", &other, 3).is_err(), "it has no stamp");
    larger.write(0, &all, Access::Cached).expect("written");
    assert_eq!(fs.tier_upkeep().grow_ssd("ssd", &other, 3).expect("grown"), 152 << 20);
    assert_eq!(fs.tier_upkeep().grow_ssd("ssd", &other, 3).expect("nothing to do"), 0);
    let many = make(&fs, "many");
    for (part, bytes) in (0..).zip(bytes(2, 60 << 20).chunks(1 << 20)) {
        assert_eq!(fs.write(many, part << 20, bytes).expect("it has room"), bytes.len());
    }
    drop(fs);
    let fs = open(&world.memory, &[TierDisk { disk: other, ..world.ssd.clone() }]).expect("it opens");
    assert!(content(&fs, kept).expect("read") == bytes(1, 3 << 20));
    assert!(content(&fs, many).expect("read") == bytes(2, 60 << 20));
    assert_sound(&fs);
}

/// TI7: a scrub finds the page that is damaged, with its path, also if the list of its segment is damaged too.
#[test]
fn ti7_a_scrub_finds_what_is_damaged() {
    let world = TieredWorld::new(16 * CHUNK, 16 << 20);
    let fs = world.open();
    let file = make(&fs, "file");
    fs.write(file, 0, &bytes(1, 200 * PAGE as usize)).expect("written");
    send_away(&fs);
    let scrub = || fs.tier_upkeep().scrub(&mut |_| true).expect("read");
    let sound = scrub();
    assert_eq!((sound.segments, sound.pages, sound.damaged_pages), (2, 200, 0));
    let place = fs.tier_upkeep().away_place(file, 7).expect("read").expect("it is away");
    let damage = |at| world.ssd.disk.write(at, &[1; 512], Access::Cached).expect("written");
    damage(place.offset);
    for summaries in [0, 1] {
        let found = scrub();
        assert_eq!((found.pages, found.damaged_pages, found.damaged_summaries), (199, 1, summaries));
        assert_eq!((found.damaged[0].path.as_deref(), found.damaged[0].page), (Some("/file"), 7));
        damage((1 << 20) + (place.offset - (1 << 20)) / SEGMENT_BYTES * SEGMENT_BYTES);
    }
    fs.write(file, 7 * PAGE, &[3; PAGE as usize]).expect("a whole page");
    assert_eq!(scrub().damaged_pages, 0);
    assert!(fs.tier_upkeep().away_place(file, 7).expect("read").is_none(), "it is in the pool");
}
