//! What is mounted, as the kernel lists it; and which of our file systems cannot be reached directly.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_fs::direct::{Session, read_mount_source, unescaped};

use crate::trees;

const KIND: &[u8] = b"fuse.ferrite";

struct Mount {
    point: PathBuf,
    options: Vec<u8>,
    kind: Vec<u8>,
    source: Vec<u8>,
}

/// Says which file systems of ours are served through the mount, and why; and where there are none at all.
pub fn tell() {
    // Disks that are attached by FUSE have another source.
    let source = |mount: &Mount| read_mount_source(&String::from_utf8_lossy(&mount.source));
    let ours: Vec<_> = listed().into_iter().filter(|mount| mount.kind == KIND && source(mount).is_some()).collect();
    if ours.is_empty() {
        remark!("ferrite run: no file system of ferrite is mounted; `ferrite up` mounts one");
    }
    for mount in ours {
        let Some((pool, name)) = source(&mount) else { continue };
        if let Err(why) = Session::connect(&pool, &name, Arc::new(trees::now)) {
            remark!("ferrite run: {} is used through the mount: {why}", mount.point.display());
        }
    }
}

/// Whether `folder` lies on a mount from which no program may be run.
pub fn forbids_programs(folder: &Path) -> bool {
    let over = listed().into_iter().filter(|mount| folder.starts_with(&mount.point));
    let last = over.max_by_key(|mount| mount.point.components().count());
    last.is_some_and(|mount| mount.options.split(|byte| *byte == b',').any(|option| option == b"noexec"))
}

fn listed() -> Vec<Mount> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parsed).collect()
}

/// A line: `36 35 98:0 /root /point options more - kind source ...`.
fn parsed(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let point = OsString::from_vec(unescaped(words.nth(4)?)).into();
    let options = words.next()?.to_vec();
    words.find(|word| *word == b"-")?;
    Some(Mount { point, options, kind: words.next()?.to_vec(), source: unescaped(words.next()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernels_list_are_read() {
        let mount = parsed(br"36 35 0:42 / /mnt/a\040b rw,noexec shared:7 - fuse.ferrite /var/a\040b:files rw")
            .expect("a mount");
        assert_eq!((mount.point.to_str(), &mount.source[..]), (Some("/mnt/a b"), &b"/var/a b:files"[..]));
        assert!(parsed(b"").is_none());
    }
}
