//! Mounts as layers of overlay file systems.

use std::fs;

use crate::mount::{can_mount, start};
use crate::programs::client;
use crate::server::{assert_sound, folder, run};

/// Containers use overlays like this. A whiteout hides a file that is removed from a lower folder, and a rename leaves
/// a whiteout at once.
#[test]
fn a_mount_can_be_the_upper_layer_of_others() {
    let kinds = fs::read_to_string("/proc/filesystems").expect("the kernel lists what it knows");
    if !can_mount() || !kinds.lines().any(|kind| kind.ends_with("\toverlay")) {
        println!("skipped: this kernel has no overlayfs, or this user mounts nothing");
        return;
    }
    let folder = folder(true);
    let (path, at) = (folder.path().join("pool"), folder.path().join("mnt"));
    let server = start(&path, &at, &["--size", "64M", "--disk", "d=8M"]);
    let script = "mkdir low up work all && echo one > low/a && mkdir low/d && echo two > low/d/b \
                  && mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work all \
                  && trap 'umount all' EXIT && echo three > all/c && mv all/a all/moved && rm -r all/d && mkdir all/d \
                  && cat all/moved all/c && ls all all/d && stat -c '%F %t,%T' up/a";
    let said = run(client("sh").args(["-c", script]).current_dir(&at));
    assert_eq!(said, "one\nthree\nall:\nc\nd\nmoved\n\nall/d:\ncharacter special file 0,0\n");
    server.interrupt();
    assert_sound(&path);
}
