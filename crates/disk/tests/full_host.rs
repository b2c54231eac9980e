//! A host that runs out of space: an error of the disk.

use std::fs::{self, File};
use std::process::Command;

use ferrite_disk::{Access, Disk, FileDisk, FileDiskOptions};
use ferrite_memory::Error;

#[test]
fn a_disk_on_a_full_host_says_so() {
    let host = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(host.path()).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        return println!("skipped: only root may mount a tmpfs");
    }
    let path = host.path().join("sparse");
    File::create(&path).and_then(|file| file.set_len(8 << 20)).unwrap();
    let disk = FileDisk::open(&path, &FileDiskOptions::default()).unwrap();
    let refused = disk.write(0, &vec![1; 4 << 20], Access::Cached);
    let is_there = fs::metadata(&path);
    drop(disk);
    let _ = Command::new("umount").arg("-l").arg(host.path()).status();
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    is_there.unwrap();
}
