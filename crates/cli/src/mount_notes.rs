//! Remarks about mounts.

use std::ffi::OsString;
use std::path::Path;

use ferrite_daemon::mounts;
use ferrite_owner::paths::{in_line, quoted};

/// Prints that a mount on `folder` hides its content.
pub fn remark_hidden(folder: &Path) {
    remark!("{} is not empty: what it holds is hidden until that is unmounted", in_line(folder));
}

/// Prints which mounts earlier owners of the pool at `pool` have left at folders other than `point`. This process owns
/// the pool now. The mounts stay, because programs that use them would write to the folders below.
pub fn remark_left(pool: &Path, point: Option<&Path>) {
    for left in mounts::left_elsewhere(pool, point) {
        let (left, typed) = (in_line(&left), quoted(&left));
        remark!("{left} is still mounted by a server of before: `ferrite fs unmount {typed}` takes that away");
    }
}

/// Prints which file systems named by `command` or its folder are used through the mount, and why. Also prints if no
/// file system of Ferrite is mounted at all.
pub fn remark_not_direct(command: &[OsString]) {
    match mounts::not_direct(command) {
        None => remark!("ferrite run: no file system of ferrite is mounted; `ferrite up` mounts one"),
        Some(all) => all.iter().for_each(|(point, why)| {
            remark!("ferrite run: {} is used through the mount: {why}", point.display());
        }),
    }
}
