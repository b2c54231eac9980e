//! A host that runs out of space: an error, never a signal.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use ferrite_medium::{Access, Disk, Error, FileDisk, FileDiskOptions, Guard, MapOptions, Mapped, Memory, Scheme, Span};

const MIB: u64 = 1 << 20;

/// A tmpfs of 2 MiB, unmounted when dropped.
struct TinyHost(tempfile::TempDir);

impl TinyHost {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=2m", "tmpfs"];
        let done = Command::new("mount").args(mount).arg(folder.path()).output();
        if done.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        println!("skipped: only root may mount a tmpfs");
        None
    }

    fn sparse_file(&self, size: u64) -> File {
        let file = File::options().read(true).write(true).create_new(true).open(self.0.path().join("sparse")).unwrap();
        file.set_len(size).unwrap();
        file
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TinyHost {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn reserving_more_than_the_host_has_is_no_space() {
    for (_, guard) in Guard::ALL.into_iter().filter(|(_, guard)| guard.ensure_available().is_ok()) {
        let Some(host) = TinyHost::mount() else { return };
        let options = MapOptions { guard, name: "sparse".into(), ..MapOptions::default() };
        let memory = Mapped::map(host.sparse_file(8 * MIB), &options).unwrap();
        memory.reserve(Span::new(0, MIB)).unwrap();
        memory.store(MIB - 4096, &[7; 4096], Scheme::Nt);
        let refused = memory.reserve(Span::new(MIB, 7 * MIB));
        assert!(matches!(refused, Err(Error::NoSpace(_))), "{guard:?}: {refused:?}");
        let populated = memory.populate(Span::new(MIB, 7 * MIB));
        assert!(matches!(populated, Err(Error::NoSpace(_))), "{guard:?}: {populated:?}");
        released_space_can_be_reserved_again(&memory);
    }
}

fn released_space_can_be_reserved_again(memory: &Mapped) {
    memory.release(Span::new(MIB, 7 * MIB)).unwrap();
    let mut kept = [0; 4096];
    memory.load(MIB - 4096, &mut kept);
    assert!(kept == [7; 4096], "what was reserved before is lost");
    memory.release(Span::new(0, MIB)).unwrap();
    memory.reserve(Span::new(6 * MIB, MIB)).unwrap();
    memory.store(6 * MIB, &[8; 4096], Scheme::Nt);
}

#[test]
fn a_disk_on_a_full_host_says_so() {
    let Some(host) = TinyHost::mount() else { return };
    drop(host.sparse_file(8 * MIB));
    let disk = FileDisk::open(&host.path().join("sparse"), &FileDiskOptions::default()).unwrap();
    let refused = disk.write(0, &vec![1; 4 * MIB as usize], Access::Cached);
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    fs::metadata(host.path().join("sparse")).unwrap();
}
