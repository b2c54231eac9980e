//! The block interface against a plain array of bytes, over crashes, on both kinds of memory.

use std::sync::Arc;

use ferrite_crash::{Model, World};
use ferrite_disk::{Access, Disk};
use ferrite_pool::layout::PAGE;

use super::guest_rig::{GuestShape, space};
use super::seeded::TestChoices;
use crate::guest_tie::GuestIdentity;
use crate::{DirectPlane, GuestDisk, GuestEngine};

fn open(shape: GuestShape, world: &World) -> GuestDisk {
    let identity = GuestIdentity { pool: [1; 16], tag: 5, name: "g".into() };
    let space = space(Arc::clone(world.memory()), shape);
    let disk = Arc::clone(world.disk(0)) as Arc<dyn Disk>;
    let engine = GuestEngine::new(space, disk, Box::new(DirectPlane), identity, || 7).expect("it opens");
    engine.advance_tie().expect("nothing fails");
    GuestDisk(Arc::new(engine))
}

fn all_of(disk: &GuestDisk) -> Vec<u8> {
    let mut bytes = vec![0; disk.geometry().size as usize];
    disk.read(0, &mut bytes).expect("read");
    bytes
}

/// Reads give what was written, and a crash behind a flush loses nothing.
#[test]
fn vr1_a_guest_is_a_disk_that_loses_no_flushed_write() {
    for (model, seed) in Model::ALL.into_iter().zip(40..) {
        let shape = GuestShape { frames: 16, pages: 40, model, ..GuestShape::default() };
        let mut world = shape.world();
        world.memory().keep_trace(false);
        let mut choices = TestChoices(seed);
        let mut expected = all_of(&open(shape, &world));
        for part in 0..6 {
            let disk = open(shape, &world);
            for number in 0..40u64 {
                let at = choices.below(shape.pages * 8 - 1) * 512;
                let sectors = 1 + choices.below(if number % 3 == 0 { 60 } else { 9 });
                let len = (sectors * 512).min(shape.pages * PAGE - at);
                let bytes = vec![(part * 40 + number) as u8; len as usize];
                disk.write(at, &bytes, Access::Cached).expect("written");
                expected[at as usize..(at + len) as usize].copy_from_slice(&bytes);
            }
            assert!(all_of(&disk) == expected, "seed {seed}");
            disk.flush().expect("flushed");
            let counts = disk.0.counts();
            assert!(counts.demoted_pages > 0 && counts.reclaimed_pages > 0, "{counts:?}");
            world = world.crash(seed + part);
            world.memory().keep_trace(false);
            assert!(all_of(&open(shape, &world)) == expected, "seed {seed} after the crash");
        }
        let disk = open(shape, &world);
        assert!(disk.0.demote_all(&mut |_, _| true).expect("nothing fails"));
        assert!(world.disk(0).snapshot()[..expected.len()] == expected, "the disk has it all");
        assert_eq!(disk.0.counts().truth_frames, 0);
    }
}

/// Several threads write pages of their own while others demote, and each page ends as its writer left it.
#[test]
fn vr7_vr10_threads_write_while_batches_run() {
    let shape = GuestShape { frames: 16, pages: 64, ..GuestShape::default() };
    let world = shape.world();
    world.memory().keep_trace(false);
    let disk = open(shape, &world);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let disk = &disk;
            scope.spawn(move || {
                for round in 0..6u8 {
                    for page in (thread * 21..thread * 21 + 21).rev() {
                        disk.write(page * PAGE + 512, &[round; 1024], Access::Cached).expect("written");
                    }
                    disk.0.step().expect("nothing fails");
                }
            });
        }
    });
    for page in 0..63 {
        let mut bytes = [9; 1024];
        disk.read(page * PAGE + 512, &mut bytes).expect("read");
        assert_eq!(bytes, [5; 1024], "page {page}");
    }
}

#[test]
fn requests_beyond_the_end_are_refused() {
    let shape = GuestShape::default();
    let disk = open(shape, &shape.world());
    assert!(disk.write(shape.pages * PAGE - 512, &[1; 1024], Access::Cached).is_err());
    assert!(disk.read(shape.pages * PAGE, &mut [0; 512]).is_err());
}
