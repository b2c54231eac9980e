//! Remarks about mounts.

use std::ffi::OsString;
use std::path::Path;

use ferrite_daemon::mounts;
use ferrite_owner::paths::{in_line, quoted};

/// Says that the content of `folder` is hidden by a mount there.
pub fn remark_hidden(folder: &Path) {
    remark!("{} is not empty: what it holds is hidden until that is unmounted", in_line(folder));
}

/// Says what earlier owners of the pool at `pool`, which this process owns now, have left mounted elsewhere than on `point`.
/// The mounts stay: programs that use one would write to the folder under it.
pub fn remark_left(pool: &Path, point: Option<&Path>) {
    for left in mounts::left_elsewhere(pool, point) {
        let (left, typed) = (in_line(&left), quoted(&left));
        remark!("{left} is still mounted by a server of before: `ferrite fs unmount {typed}` takes that away");
    }
}

/// Says which of the file systems that `command` or its folder names are used through the mount, and why; and if no file
/// system of ferrite is mounted at all.
pub fn remark_not_direct(command: &[OsString]) {
    match mounts::not_direct(command) {
        None => remark!("ferrite run: no file system of ferrite is mounted; `ferrite up` mounts one"),
        Some(all) => all.iter().for_each(|(point, why)| {
            remark!("ferrite run: {} is used through the mount: {why}", point.display());
        }),
    }
}
