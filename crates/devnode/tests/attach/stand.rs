//! Shared parts of the tests: a mutex, a directory, an attached disk, and mounts that are removed at the end.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrite_devnode::{self as attach, Attached, Options};
use tempfile::TempDir;

use crate::ram::RamDisk;

static TURN: Mutex<()> = Mutex::new(());

/// The setting of one test: tests run one at a time, each in its own directory.
pub struct Stand {
    pub directory: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Stand {
    /// Returns `None`, and prints the reason, if the machine cannot attach disks.
    pub fn new() -> Option<Self> {
        if let Err(error) = attach::check() {
            eprintln!("skipped: {error}");
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { directory: tempfile::tempdir().unwrap(), _turn: turn })
    }

    /// Returns the directory of the attached disks.
    pub fn places(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("places")
    }

    pub fn options(&self, name: &str) -> Options {
        Options { link: self.directory.path().join("dev").join(name), ..Options::new(name, self.places()) }
    }

    pub fn attach(&self, name: &str, disk: &Arc<RamDisk>) -> Attached {
        Attached::new(disk.clone(), self.options(name)).unwrap()
    }

    pub fn mount(&self, device: &Path, kind: &str) -> Mounted {
        let point = self.directory.path().join("mounted");
        fs::create_dir_all(&point).unwrap();
        run("mount", &["-t", kind, &text(device), &text(&point)]);
        Mounted { point }
    }

    /// Asserts that no mount, no device and no file of the tests remains.
    pub fn assert_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.places()).into_iter().flatten().flatten().collect();
        assert!(!self.places().exists(), "the directory of places is left, with {left:?}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = text(&self.directory.path().canonicalize().unwrap());
        assert!(!mounts.contains(&here), "a mount is left:\n{mounts}");
        let devices: Vec<_> = fs::read_dir("/sys/block").unwrap().flatten().map(|entry| entry.path()).collect();
        let message = devices.iter().flat_map(|device| ["loop/backing_file", "backend"].map(|file| device.join(file)));
        for used in message.filter_map(|file| fs::read_to_string(file).ok()) {
            assert!(!used.contains(&here), "a device is left for {used}");
        }
        let links = fs::read_dir(self.directory.path().join("dev")).into_iter().flatten().count();
        assert_eq!(links, 0, "a link is left");
    }
}

/// A mounted file system. Dropping it unmounts it, lazily if a program still uses it.
pub struct Mounted {
    pub point: PathBuf,
}

impl Mounted {
    pub fn unmount(self) {
        run("umount", &[&text(&self.point)]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-q", "-l"]).arg(&self.point).status();
    }
}

/// Runs a program, asserts its success and returns its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Opens a node with direct I/O, without the page cache.
pub fn direct(device: &Path) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(device).unwrap()
}

/// Bytes with the alignment that direct I/O requires.
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub fn filled(len: usize, byte: u8) -> Self {
        let bytes = vec![byte; len + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        Self { bytes, start, len }
    }

    pub fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}
