//! VC1 to VC3: the content of a guest is exported and replaced, with a crash at every point.

use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_crash::{CrashReport, ExploreOptions, Points, World, explore};
use ferrite_disk::{Access, Disk};
use ferrite_memory::planted::plant;
use ferrite_pool::layout::PAGE;

use super::pool_guest::{SIZE, checked, disk_of, make, open, pool_of};
use crate::guest_image::CopiedBytes;
use crate::pending_change::PendingChange;
use crate::{GuestEngine, GuestError, GuestLayout, Result};

/// The bytes of the file that the tests import: a part of a page, behind a hole.
const FILE_BYTES: u64 = 600 * PAGE + 100;

/// Returns the content that an import writes.
fn new_content() -> Vec<u8> {
    let byte = |at: u64| if at / PAGE % 8 == 3 { 0 } else { (at / PAGE % 199) as u8 | 1 };
    let mut bytes: Vec<u8> = (0..FILE_BYTES).map(byte).collect();
    bytes.resize(SIZE as usize, 0);
    bytes
}

/// Imports `bytes` bytes of the new content into the guest of `world`.
fn import(world: &World, bytes: u64, watch: &mut dyn FnMut(u64, u64) -> bool) -> Result<Option<CopiedBytes>> {
    let engine = GuestEngine::open_to_replace(&pool_of(world), "g", disk_of(world), || 5)?;
    let content = new_content();
    let mut read = |at: u64, into: &mut [u8]| {
        into.copy_from_slice(&content[at as usize..][..into.len()]);
        Ok(())
    };
    engine.import(bytes, &mut read, watch)
}

/// Returns the content of the guest of `world`, or why it does not open.
fn content(world: &World) -> Result<Vec<u8>> {
    let pool = pool_of(world);
    let engine = GuestEngine::open(&pool, "g", disk_of(world), Box::new(crate::DirectPlane), || 4)?;
    let mut bytes = vec![0; engine.size() as usize];
    engine.read(0, &mut bytes)?;
    Ok(bytes)
}

fn exported(world: &World) -> (Vec<u8>, CopiedBytes) {
    let pool = pool_of(world);
    let disk = open(&pool, world);
    let mut bytes = vec![0; SIZE as usize];
    let mut write = |at: u64, from: &[u8]| {
        assert!(from.chunks(PAGE as usize).all(|page| page.iter().any(|byte| *byte != 0)), "zeros are left out");
        bytes[at as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    };
    let copied = disk.0.export(&mut write, &mut |_, _| true).expect("nothing fails").expect("not stopped");
    (bytes, copied)
}

#[test]
fn an_export_and_an_import_have_every_byte() {
    let world = make();
    let before = content(&world).expect("it opens");
    let (bytes, copied) = exported(&world);
    assert!(bytes == before);
    assert_eq!(copied, CopiedBytes { copied: 530 * PAGE, zeros: SIZE - 530 * PAGE });
    let copied = import(&world, FILE_BYTES, &mut |_, _| true).expect("nothing fails").expect("not stopped");
    assert_eq!(copied.copied + copied.zeros, SIZE);
    assert!(content(&world).expect("it opens") == new_content());
    assert!(exported(&world).0 == new_content());
    assert!(checked(&world).is_sound(), "{:?}", checked(&world).findings);
}

/// More bytes than the guest has change nothing, and a stopped import leaves a guest that only an import opens.
#[test]
fn vc1_a_stopped_import_leaves_a_refused_guest() {
    let world = make();
    let before = content(&world).expect("it opens");
    let large = import(&world, SIZE + 1, &mut |_, _| true);
    assert!(matches!(&large, Err(GuestError::Refused(why)) if why.contains("do not fit")), "{large:?}");
    assert!(content(&world).expect("it opens") == before);
    let stopped = import(&world, FILE_BYTES, &mut |done, _| done == 0).expect("nothing fails");
    assert_eq!(stopped, None);
    let refused = content(&world);
    assert!(matches!(&refused, Err(GuestError::Refused(why)) if why.contains("ferrite guest import")), "{refused:?}");
    assert!(checked(&world).is_sound(), "{:?}", checked(&world).findings);
    import(&world, FILE_BYTES, &mut |_, _| true).expect("nothing fails").expect("not stopped");
    assert!(content(&world).expect("it opens") == new_content());
}

/// A backup of the pool from before an import does not match the disk behind it (VR9).
#[test]
fn vr9_a_pool_from_before_an_import_is_refused() {
    let world = make();
    let engine = GuestEngine::open_to_replace(&pool_of(&world), "g", disk_of(&world), || 5).expect("it opens");
    let before = world.memory().snapshot();
    ferrite_pool::Freeze::freeze(&*engine);
    ferrite_pool::Freeze::thaw(&*engine);
    engine.import(0, &mut |_, _| Ok(()), &mut |_, _| true).expect("nothing fails").expect("not stopped");
    drop(engine);
    let disk = ferrite_crash::LyingDisk::from_image(world.disk(0).geometry(), &world.disk(0).snapshot());
    let restored = World::new(ferrite_crash::LyingMemory::from_image(&before, world.memory().model()), [disk]);
    restored.memory().keep_trace(false);
    let refused = content(&restored);
    assert!(matches!(&refused, Err(GuestError::Refused(why)) if why.contains("do not match")), "{refused:?}");
}

/// Explores crashes of an import with the bug `bug`.
fn explore_import(bug: Option<&'static str>) -> CrashReport {
    let _planted = bug.map(plant);
    let world = make();
    let old = content(&world).expect("it opens");
    world.memory().keep_trace(true);
    world.memory().forget_trace();
    let _ = import(&world, FILE_BYTES, &mut |_, _| true);
    world.memory().mark(1);
    let options = ExploreOptions {
        points: Points::Sampled(24),
        samples_per_point: 2,
        images_per_point_max: 1,
        ..ExploreOptions::default()
    };
    explore(world.memory(), &options, |crash| {
        let crashed = crash.world();
        crashed.memory().keep_trace(false);
        let tag = pool_of(&crashed).tag("g").expect("there");
        let pending = GuestLayout::read(&tag).map_err(|error| error.to_string())?.pending;
        match content(&crashed) {
            Ok(bytes) if bytes == new_content() => Ok(()),
            Ok(bytes) if bytes == old && !crash.has_mark(1) => Ok(()),
            Ok(_) => Err("the content is of no one time".into()),
            Err(GuestError::Refused(why)) if pending == PendingChange::Import && !crash.has_mark(1) => {
                assert!(why.contains("did not end"), "{why}");
                import(&crashed, FILE_BYTES, &mut |_, _| true).map_err(|error| error.to_string())?;
                let bytes = content(&crashed).map_err(|error| error.to_string())?;
                if bytes == new_content() { Ok(()) } else { Err("a second import has other bytes".into()) }
            }
            Err(error) => Err(error.to_string()),
        }
    })
}

#[test]
fn vc1_vc3_a_crash_of_an_import_leaves_old_new_or_refused_content() {
    let report = explore_import(None);
    assert!(report.failure.is_none(), "{report:?}");
}

fn assert_caught(bug: &'static str) {
    assert!(explore_import(Some(bug)).failure.is_some(), "{bug}");
}

#[test]
fn canary_vc1_an_import_that_begins_before_the_tag_says_so_is_caught() {
    assert_caught("guest: an import begins before the tag says so");
}

#[test]
fn canary_vc1_an_import_that_ends_before_its_bytes_are_durable_is_caught() {
    assert_caught("guest: an import ends before its bytes are durable");
}

#[test]
fn canary_vc3_an_import_that_keeps_the_words_of_old_pages_is_caught() {
    assert_caught("guest: an import keeps the words of old pages");
}

/// Exports a guest while a client writes two pages, always the first one first. Returns true if the export has no second
/// write without its first one.
fn is_of_one_moment(bug: Option<&'static str>) -> bool {
    let _planted = bug.map(plant);
    let world = make();
    let pool = pool_of(&world);
    let disk = open(&pool, &world);
    let write = |page: u64, byte: u8| disk.write(page * PAGE, &[byte; PAGE as usize], Access::Cached).expect("written");
    let (first, second) = (0, SIZE / PAGE - 1);
    write(first, 1);
    write(second, 1);
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut found = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            write(first, 2);
            write(second, 2);
            done.store(true, Ordering::Release);
        });
        let mut note = |at: u64, bytes: &[u8]| {
            let byte_of = |page: u64| bytes.get((page * PAGE).checked_sub(at)? as usize).copied();
            if let Some(byte) = byte_of(first) {
                found.0 = byte;
                begun.store(true, Ordering::Release);
                // A writer that does not wait is done before the export reads the second page.
                for _ in 0..200 {
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
            found.1 = byte_of(second).unwrap_or(found.1);
            Ok(())
        };
        disk.0.export(&mut note, &mut |_, _| true).expect("nothing fails").expect("not stopped");
    });
    found == (1, 1)
}

#[test]
fn vc2_an_export_is_of_one_moment() {
    assert!(is_of_one_moment(None));
}

#[test]
fn canary_vc2_a_client_that_writes_during_an_export_is_caught() {
    assert!(!is_of_one_moment(Some("guest: clients write while a guest is exported")));
}
