//! A machine of folders and files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::Survival;
use crate::provenance::System;

/// Files of a bus, by path, with their content.
pub type Files<'a> = &'a [(&'a str, &'a str)];

/// A `/proc`, `/sys` and `/dev` of a test's own.
pub struct Machine {
    root: TempDir,
    mounts: String,
    devices: u32,
}

/// The mount that is asked about.
pub const ASKED: u64 = 99;

impl Machine {
    pub fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().expect("a folder"), mounts: String::new(), devices: 0 };
        for folder in ["proc/self", "sys/dev/block", "sys/dev/char", "sys/class/block", "dev"] {
            fs::create_dir_all(machine.root.path().join(folder)).expect("made");
        }
        machine
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn file(&self, path: &str, content: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, content).expect("written");
    }

    pub fn link(&self, path: &str, to: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        symlink(self.root.path().join(to), path).expect("linked");
    }

    /// A block device at `folder` below `/sys/devices`; its number.
    pub fn block(&mut self, folder: &str) -> String {
        self.devices += 1;
        let (number, at) = (format!("8:{}", self.devices), format!("sys/devices/{folder}"));
        let name = folder.rsplit('/').next().expect("a name");
        self.file(&format!("{at}/size"), "1");
        self.link(&format!("sys/dev/block/{number}"), &at);
        self.link(&format!("sys/class/block/{name}"), &at);
        self.file(&format!("dev/{}", name.replace('!', "/")), "");
        number
    }

    pub fn slave(&self, of: &str, is: &str) {
        let name = is.rsplit('/').next().expect("a name");
        self.link(&format!("sys/devices/{of}/slaves/{name}"), &format!("sys/devices/{is}"));
    }

    pub fn mount(&mut self, id: u64, (number, point, kind): (&str, &str, &str), rest: &str) {
        self.mounts += &format!("{id} 1 {number} / {point} rw,relatime - {kind} {rest}\n");
        self.file("proc/self/mountinfo", &self.mounts);
    }

    /// Mounts ext4 of the device with this number where it is asked about.
    pub fn ext4(&mut self, number: &str) {
        self.mount(ASKED, (number, "/data", "ext4"), "/dev/x rw");
    }

    /// A region of a bus of persistent memory, with a disk on it and a device DAX.
    pub fn region(&mut self, bus: &str, files: Files<'_>) -> String {
        self.file(&format!("sys/devices/{bus}/region0/size"), "1");
        for (path, content) in files {
            self.file(&format!("sys/devices/{bus}/{path}"), content);
        }
        let device = format!("sys/devices/{bus}/region0/dax0.0/dax0.0");
        self.file(&format!("{device}/size"), "1");
        self.link("sys/dev/char/250:1", &device);
        self.block(&format!("{bus}/region0/namespace0.0/block/pmem0"))
    }

    pub fn asked(&self) -> Survival {
        System::new(self.root.path()).file(Some(ASKED))
    }

    pub fn asked_dax(&self) -> Survival {
        System::new(self.root.path()).device_dax(250, 1)
    }
}
