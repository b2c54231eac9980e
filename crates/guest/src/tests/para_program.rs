//! Programs that store into the DRAM of a region, and persist ranges of it.

use std::sync::Arc;

use ferrite_disk::{Access, Disk, RamDisk};
use ferrite_memory::Span;
use ferrite_memory::planted::plant;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Format, Pool, PutOptions};

use super::lent_region::{LentRig, ask, kill};
use super::region_rig::{PAGES, RegionFolder, has_regions, open_pool};
use super::seeded::TestChoices;
use crate::{GuestRequest, ParaDisk, ParaMemory, ParaRegion};

fn open(folder: &RegionFolder, disk: Arc<dyn Disk>) -> ParaRegion {
    ParaRegion::open(&open_pool(&folder.pool_path()), "g", disk, || 4).expect("it opens")
}

fn loaded(region: &ParaRegion, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    region.load(at, &mut bytes).expect("within the guest");
    bytes
}

/// PV1, PV2, PV6: two threads store to four times as many pages as there are frames. The next user has what barriers
/// made durable, and nothing else.
#[test]
fn pv1_pv2_pv6_a_region_keeps_what_was_persisted() {
    if !has_regions() {
        return;
    }
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(PAGES * PAGE + DISK_STAMP_BYTES));
    let folder = RegionFolder::new();
    folder.create(&disk);
    let region = open(&folder, Arc::clone(&disk));
    let half = PAGES * PAGE / 2;
    let program = |first: u64| {
        let (mut choices, mut durable) = (TestChoices(first), vec![0u8; half as usize]);
        for round in 0..40u8 {
            let mut spans = Vec::new();
            for number in 0..40 {
                let at = choices.below(half - 9000);
                let span = Span::new(first + at, 1 + choices.below(if number % 9 == 0 { 9000 } else { 200 }));
                region.store(span.at, &vec![round + 1; span.len as usize]).expect("within the guest");
                assert!(loaded(&region, span.at, span.len as usize).iter().all(|byte| *byte == round + 1));
                if choices.below(4) > 0 {
                    region.persist(span).expect("within the guest");
                    spans.push(span);
                }
            }
            region.barrier().expect("nothing fails");
            for span in spans {
                let at = (span.at - first) as usize;
                durable[at..at + span.len as usize].copy_from_slice(&loaded(&region, span.at, span.len as usize));
            }
        }
        durable
    };
    let durable = std::thread::scope(|scope| {
        let halves = [0, half].map(|first| scope.spawn(move || program(first)));
        halves.map(|thread| thread.join().expect("no panic")).concat()
    });
    let counts = region.engine().counts();
    assert!(counts.demoted_pages > 0 && counts.reclaimed_pages > 0, "{counts:?}");
    assert_eq!(region.failure(), None);
    drop(region);
    assert!(loaded(&open(&folder, disk), 0, durable.len()) == durable);
}

/// PV1, PV2 with VG1 to VG3: a region through the owner of a pool goes on when the owner ends, and a region without an
/// owner makes its process one.
#[test]
fn pv1_vg1_vg2_a_region_of_any_process_keeps_what_was_persisted() {
    if !has_regions() {
        return;
    }
    let (rig, owner) = LentRig::new();
    let region = ParaRegion::open_in_pool(&rig.0.pool_path(), "g").expect("lent");
    region.store(PAGE - 3, b"kept").expect("within the guest");
    region.store(5 * PAGE, b"lost").expect("within the guest");
    region.persist(Span::new(PAGE - 3, 4)).expect("within the guest");
    kill(owner);
    region.barrier().expect("nothing fails");
    drop(region);
    let region = ParaRegion::open_in_pool(&rig.0.pool_path(), "g").expect("as its owner");
    assert_eq!((loaded(&region, PAGE - 3, 4), loaded(&region, 5 * PAGE, 4)), (b"kept".to_vec(), vec![0; 4]));
    region.persist(Span::new(0, PAGES * PAGE)).expect("all of it");
    region.barrier().expect("nothing fails");
    let counts = region.engine().counts();
    assert!(counts.promoted_pages < 4, "pages that the program has not touched stay where they are: {counts:?}");
    region.close().expect("closed");
    ask(&rig.own(), &GuestRequest::Flush { name: "g".into() }).expect("flushed");
    let disk = std::fs::read(rig.disk_path()).expect("read");
    assert_eq!(&disk[PAGE as usize - 3..][..4], b"kept");
}

/// PV1, PV2, PV4: a region as a disk, written by two threads that flush. The next user has each flushed write.
#[test]
fn pv1_pv4_a_disk_over_a_region_keeps_flushed_writes() {
    if !has_regions() {
        return;
    }
    let backing: Arc<dyn Disk> = Arc::new(RamDisk::new(PAGES * PAGE + DISK_STAMP_BYTES));
    let folder = RegionFolder::new();
    folder.create(&backing);
    let disk = ParaDisk(Arc::new(open(&folder, Arc::clone(&backing))));
    let sectors = disk.geometry().size / 512;
    let program = |first: u64| {
        let (mut choices, mut flushed) = (TestChoices(first + 5), vec![0u8; sectors as usize]);
        for number in 0..400u64 {
            let sector = first + 2 * choices.below(sectors / 2);
            let value = (number % 255) as u8 + 1;
            let access = if number % 5 == 0 { Access::Fua } else { Access::Cached };
            disk.write(sector * 512, &[value; 512], access).expect("written");
            flushed[sector as usize] = value;
        }
        disk.flush().expect("flushed");
        flushed
    };
    let halves = std::thread::scope(|scope| {
        let halves = [0, 1].map(|first| scope.spawn(move || program(first)));
        halves.map(|thread| thread.join().expect("no panic"))
    });
    disk.write(0, &[255; 512], Access::Cached).expect("written, and not flushed");
    assert!(
        disk.write(sectors * 512, &[0; 512], Access::Cached).is_err()
            && disk.read(sectors * 512, &mut [0; 512]).is_err()
    );
    let mut first = [0; 512];
    disk.read(0, &mut first).expect("read");
    assert_eq!(first, [255; 512]);
    drop(disk);
    let region = open(&folder, backing);
    for sector in 0..sectors {
        let expected = halves[sector as usize % 2][sector as usize];
        assert_eq!(loaded(&region, sector * 512, 512), [expected; 512], "sector {sector}");
    }
}

/// Puts values into a pool in a region, and opens the pool again behind a crash. Returns true if it has each value.
fn pool_keeps_values(bug: Option<&'static str>) -> bool {
    let backing: Arc<dyn Disk> = Arc::new(RamDisk::new(PAGES * PAGE + DISK_STAMP_BYTES));
    let folder = RegionFolder::new();
    folder.create(&backing);
    let memory = || Arc::new(ParaMemory::new(Arc::new(open(&folder, Arc::clone(&backing)))));
    let values: Vec<Vec<u8>> = (1..20u8).map(|number| vec![number; usize::from(number) * 1999]).collect();
    let planted = bug.map(plant);
    let first = memory();
    Pool::create(&*first, &Format { uuid: [2; 16], boot_id: [3; 16] }).expect("a new pool");
    let (pool, _) = Pool::open(first, [3; 16]).expect("it opens");
    for (number, value) in values.iter().enumerate() {
        pool.put(&format!("v{number}"), &mut &value[..], &PutOptions::default()).expect("it fits");
    }
    drop(pool);
    drop(planted);
    let Ok((pool, _)) = Pool::open(memory(), [3; 16]) else { return false };
    values.iter().enumerate().all(|(number, value)| {
        let mut bytes = Vec::new();
        pool.get(&format!("v{number}"), &mut bytes).is_ok() && bytes == *value
    })
}

/// PV1 and M1: a pool in a region has each value whose put returned.
#[test]
fn pv1_m1_a_pool_in_a_region_keeps_its_values() {
    assert!(!has_regions() || pool_keeps_values(None));
}

#[test]
fn canary_m1_stores_that_are_not_persisted_are_caught() {
    assert!(!has_regions() || !pool_keeps_values(Some("guest: a store to a region's memory is not persisted")));
}

/// Accesses beyond the end are refused, and those up to it are not.
#[test]
fn load_and_store_refuse_what_is_not_within_the_guest() {
    if !has_regions() {
        return;
    }
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(PAGES * PAGE + DISK_STAMP_BYTES));
    let folder = RegionFolder::new();
    folder.create(&disk);
    let region = open(&folder, disk);
    let size = PAGES * PAGE;
    assert!(region.load(size - 3, &mut [0; 4]).is_err() && region.store(size, &[1]).is_err());
    assert!(region.load(u64::MAX, &mut [0; 4]).is_err() && region.persist(Span::new(size, 1)).is_err());
    region.store(size - 3, &[1, 2, 3]).expect("the end");
    assert_eq!(loaded(&region, size - 3, 3), [1, 2, 3]);
}
