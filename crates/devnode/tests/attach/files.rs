//! Partition tables and file systems on the node.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ferrite_devnode::Error;

use crate::ram::{Asked, RamDisk};
use crate::stand::{Stand, run, text};

/// Makes a file system, fills it, deletes half, trims, and verifies the data after unmounting and a second attach.
fn live_on(kind: &str, size: u64, check: &[&str]) {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(size));
    let mut attached = stand.attach(kind, &disk);
    let device = text(attached.link());
    run(&format!("mkfs.{kind}"), &["-q", &device]);
    let mounted = stand.mount(attached.link(), kind);
    for file in 0..40_u8 {
        fs::write(mounted.point.join(file.to_string()), vec![file; 200_000]).unwrap();
    }
    (0..40)
        .filter(|file| file % 2 == 0)
        .for_each(|file| fs::remove_file(mounted.point.join(file.to_string())).unwrap());
    disk.asked();
    run("fstrim", &[&text(&mounted.point)]);
    assert!(disk.asked().iter().any(|one| matches!(one, Asked::Trim(_))), "fstrim did not reach the disk");
    mounted.unmount();
    run(check[0], &[&check[1..], &[&device]].concat());
    attached.detach().unwrap();
    stand.assert_clean();

    let mut attached = stand.attach(kind, &disk);
    let mounted = stand.mount(attached.link(), kind);
    for file in (1..40_u8).step_by(2) {
        let read = fs::read(mounted.point.join(file.to_string())).unwrap();
        assert!(read == vec![file; 200_000], "file {file} changed");
    }
    mounted.unmount();
    attached.detach().unwrap();
    stand.assert_clean();
}

#[test]
fn ext4_lives_on_it() {
    live_on("ext4", 64 << 20, &["e2fsck", "-f", "-n"]);
}

#[test]
fn xfs_lives_on_it() {
    live_on("xfs", 320 << 20, &["xfs_repair", "-n"]);
}

/// A program writes a partition table and reads it again; a mounted partition keeps the whole node attached (AT3).
#[test]
fn partitions_are_seen_and_hold_the_node() {
    let Some(stand) = Stand::new() else { return };
    let mut attached = stand.attach("table", &Arc::new(RamDisk::new(64 << 20)));
    let device = text(attached.device());
    let mut sfdisk = Command::new("sfdisk");
    let mut sfdisk = sfdisk.args(["-q", &device]).stdin(Stdio::piped()).spawn().unwrap();
    sfdisk.stdin.take().unwrap().write_all(b"label: gpt\n,20MiB\n,\n").unwrap();
    assert!(sfdisk.wait().unwrap().success());
    // Some kernels do not read partition tables by themselves.
    run("partx", &["-u", &device]);
    let table = run("sfdisk", &["--dump", &device]);
    let second = format!("{device}p2");
    assert!(table.contains(&second), "{table}");
    run("mkfs.ext4", &["-q", &second]);
    let mounted = stand.mount(second.as_ref(), "ext4");
    let Err(Error::Busy { who, .. }) = attached.detach() else { panic!("detached under a mounted partition") };
    assert!(who.iter().any(|one| one.contains(&text(&mounted.point))), "{who:?}");
    mounted.unmount();
    attached.detach().unwrap();
    stand.assert_clean();
}
