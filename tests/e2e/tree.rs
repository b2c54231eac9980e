//! A source tree to unpack, and its checksums.

use std::path::Path;

use crate::programs::client;
use crate::server::run;

/// Copies a real source tree (the headers of this system, some thousand files) into `to`.
pub fn unpack(to: &Path) {
    run(client("sh").arg("-c").arg(format!("tar -C /usr -cf - include | tar -C {} -xf -", to.display())));
}

/// Asserts that all files below `/usr/include` equal their copies below `at`.
pub fn assert_equal(at: &Path) {
    run(client("diff").arg("-rq").arg("--no-dereference").arg("/usr/include").arg(at.join("include")));
}

/// A mounted file system, unmounted when dropped.
pub struct Mounted<'a>(pub &'a Path);

impl<'a> Mounted<'a> {
    /// Mounts `device` at `at`.
    pub fn new(device: &Path, at: &'a Path) -> Self {
        std::fs::create_dir_all(at).expect("made");
        run(client("mount").arg(device).arg(at));
        Self(at)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let gone = client("umount").arg(self.0).output().is_ok_and(|output| output.status.success());
        if !gone {
            let _ = client("umount").arg("-l").arg(self.0).output();
        }
    }
}
