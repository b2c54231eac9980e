//! A host that runs out of space: an error, never a signal.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use ferrite_memory::{Error, Guard, MapOptions, Mapped, Memory, Scheme, Span, make_pool_file, own_storage};

const MIB: u64 = 1 << 20;

/// A small file system, unmounted when dropped.
struct TinyHost(tempfile::TempDir);

impl TinyHost {
    /// A tmpfs of 2 MiB.
    fn mount() -> Option<Self> {
        Self::mounted(&["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
    }

    /// A file system of `kind` in a file of 320 MiB.
    fn of(kind: &str) -> Option<Self> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(320 * MIB).unwrap();
        let made = Command::new(format!("mkfs.{kind}")).arg("-f").arg(image.path()).output();
        if !made.is_ok_and(|output| output.status.success()) {
            println!("skipped: there is no mkfs.{kind}");
            return None;
        }
        Self::mounted(&["-t", kind, "-o", "loop", image.path().to_str().unwrap()])
    }

    fn mounted(what: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let done = Command::new("mount").args(what).arg(folder.path()).output();
        if done.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        println!("skipped: only root may mount {what:?}, where the kernel knows that");
        None
    }

    /// Fills the file system.
    fn fill(&self) {
        for (i, kib) in (0..=18).rev().map(|bits| 1 << bits).enumerate() {
            let take = |j| {
                let file = self.path().join(format!("fill{i}.{j}"));
                Command::new("fallocate").args(["-l", &format!("{kib}K")]).arg(file).output().unwrap().status.success()
            };
            let _ = (0..400).take_while(|j| take(*j)).count();
        }
        File::open(self.path()).unwrap().sync_all().unwrap();
    }

    /// A pool's file of 64 MiB, of which four are stored and durable, and what maps it.
    fn pool(&self) -> (File, Mapped) {
        let path = self.path().join("pool");
        make_pool_file(&path, 64 * MIB).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let options = MapOptions { name: "pool".into(), ..MapOptions::default() };
        let memory = Mapped::map(file.try_clone().unwrap(), &options).unwrap();
        memory.reserve(Span::new(0, 6 * MIB)).unwrap();
        memory.store(0, &vec![1; 4 * MIB as usize], Scheme::Nt);
        memory.barrier().unwrap();
        (file, memory)
    }

    /// A copy of the pool that shares its storage.
    fn copy(&self) -> PathBuf {
        let (pool, copy) = (self.path().join("pool"), self.path().join("copy"));
        assert!(Command::new("cp").arg("--reflink=always").args([&pool, &copy]).status().unwrap().success());
        copy
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

/// A refused reservation gives back the pages that it has filled, and keeps the pages from before.
#[test]
fn a_refused_reservation_keeps_nothing() {
    let Some(host) = TinyHost::mounted(&["-t", "tmpfs", "-o", "size=11m", "tmpfs"]) else { return };
    let file = host.sparse_file(32 * MIB);
    let options = MapOptions { name: "sparse".into(), ..MapOptions::default() };
    let memory = Mapped::map(file.try_clone().unwrap(), &options).unwrap();
    let promised = || file.metadata().unwrap().blocks() * 512;
    memory.reserve(Span::new(0, 2 * MIB)).unwrap();
    memory.store(0, &[5; 4096], Scheme::Nt);
    memory.store(8 * MIB, &[6; 4096], Scheme::Nt);
    let before = promised();
    let refused = memory.reserve(Span::new(2 * MIB, 30 * MIB));
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    assert!(promised() <= before + 2 * MIB, "{before} then {}", promised());
    for (at, byte) in [(0, 5), (8 * MIB, 6)] {
        let mut kept = [0; 4096];
        memory.load(at, &mut kept);
        assert!(kept == [byte; 4096], "what was stored at {at} is lost");
    }
    memory.reserve(Span::new(4 * MIB, 2 * MIB)).unwrap();
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

/// What a copy shares is stored over elsewhere, and a full host has no elsewhere.
#[test]
fn what_a_copy_shared_is_stored_over_on_a_full_host() {
    let Some(host) = TinyHost::of("xfs") else { return };
    let (file, memory) = host.pool();
    let copy = host.copy();
    own_storage(&file, "pool").unwrap();
    assert!(file.metadata().unwrap().blocks() * 512 < 8 * MIB, "its holes were filled");
    let mut bytes = vec![0; 4 * MIB as usize];
    memory.load(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 1));
    host.fill();
    memory.store(0, &vec![2; 6 * MIB as usize], Scheme::Nt);
    memory.barrier().unwrap();
    assert!(fs::read(copy).unwrap()[..4 * MIB as usize].iter().all(|byte| *byte == 1));
}

#[test]
fn a_host_without_space_for_what_a_copy_shares_says_so() {
    let Some(host) = TinyHost::of("xfs") else { return };
    let (file, _) = host.pool();
    let copy = host.copy();
    host.fill();
    let refused = own_storage(&file, "pool").unwrap_err();
    assert!(matches!(&refused, Error::NoSpace(what) if what.contains("free as much on its host")), "{refused}");
    fs::remove_file(copy).unwrap();
    // XFS frees what was removed a moment later.
    let owns = |_| own_storage(&file, "pool").is_ok() || (sleep(Duration::from_millis(50)), false).1;
    assert!((0..200).any(owns), "what nobody shares any more");
}

/// Such a file system writes out of place, except for files with the attribute against it.
#[test]
fn a_new_pool_is_stored_over_in_place() {
    let Some(host) = TinyHost::of("btrfs") else { return };
    let (_, memory) = host.pool();
    host.fill();
    memory.store(MIB, &vec![2; MIB as usize], Scheme::Nt);
    memory.barrier().unwrap();
}
