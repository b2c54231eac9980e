//! Disks that are filled, and filled disks under several guards.

use ferrite_disk::RamDisk;

use super::*;

#[test]
fn a_filled_disk_is_told_from_another() {
    let disk = RamDisk::new(FILL_BYTES as u64 * 2 + 4096);
    assert!(!is_filled(&disk, 0, 4096).expect("it reads"), "zeros were not written");
    fill(&disk).expect("it is written");
    for at in [0, FILL_BYTES as u64, 2 * FILL_BYTES as u64] {
        assert!(is_filled(&disk, at, 4096).expect("it reads"), "{at}");
    }
    disk.write(3584, &[0; 512], Access::Cached).expect("written");
    assert!(!is_filled(&disk, 0, 4096).expect("it reads"), "one sector differs");
}

/// Subjects of one case read the same data by different guards, and without a disk.
#[test]
fn every_view_of_a_disk_has_its_data() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let stage = FilledDisk::build(place.path(), 4 << 20).expect("a disk");
    assert!(stage.size() > 0 && stage.size() <= 4 << 20);
    let (whole, in_place) = (stage.whole(Guard::best()), stage.in_place(Guard::None, Scheme::Nt));
    let (whole, in_place) = (whole.expect("it opens"), in_place.expect("it opens too"));
    for disk in [&*whole, &*in_place] {
        assert!(is_filled(disk, 0, FILL_BYTES).expect("it reads"));
    }
    let mut read = vec![0; 4096];
    stage.bare(Guard::None).expect("mapped").read(0, &mut read);
    assert!(read.iter().all(|byte| *byte != 0), "the data of the disk lies there");
    drop((whole, in_place, stage));
    assert_eq!(std::fs::read_dir(place.path()).expect("there").count(), 0, "the pool is removed");
}
