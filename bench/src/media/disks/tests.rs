//! Disks that every machine has.

use super::*;

#[test]
fn simulated_disks_are_entered_with_their_size() {
    let mut field = DiskField::default();
    field.enter_simulated(8 << 20);
    for name in [SSD, HDD] {
        assert_eq!(field.get(name).expect("entered").geometry().size, 8 << 20, "{name}");
    }
}

#[test]
fn a_folder_in_memory_lies_on_no_disk() {
    assert!(!lies_on_a_disk(Path::new("/dev/shm")) && !lies_on_a_disk(Path::new("/proc")));
}
