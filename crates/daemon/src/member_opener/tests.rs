use ferrite_disk::Access;

use super::*;

#[test]
fn a_member_is_a_file_and_no_disk_of_a_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ssd");
    std::fs::write(&path, [0; 8192]).expect("written");
    let address = format!("ssd-nvme:{}", path.display());
    let disk = AddressOpener.open(&address).unwrap_or_else(|why| panic!("{why}"));
    disk.write(4096, &[3; 4096], Access::Cached).expect("written");
    let why = AddressOpener.open(path.to_str().expect("text")).err().expect("another cache has it");
    assert!(why.contains("ssd"), "{why}");
    let why = AddressOpener.open("/none/pool:d").err().expect("a disk in a pool");
    assert!(why.contains("`ferrite disk serve /none/pool d`"), "{why}");
}

/// A cache on SSDs in memory would seem to survive what its pool does.
#[test]
fn an_ssd_in_memory_survives_no_power_loss() {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in memory");
    let survival = AddressOpener.survival(&format!("ssd-sata:{}", file.path().display()));
    assert_eq!(survival.power_loss.survives, Survives::No, "{survival:?}");
    let survival = AddressOpener.survival("nbd://h/d");
    assert_eq!(survival.power_loss.survives, Survives::NotKnown, "{survival:?}");
}
