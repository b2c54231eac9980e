//! The parts of this machine that a pool uses, and the limits that it meets.

use std::fs;
use std::path::Path;

use ferrite_daemon::lacks;
use ferrite_fuse::LOOP;
use ferrite_memory::{Guard, Scheme, TrapRegion};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::size;

/// A part of the machine or of the kernel.
#[derive(Debug, Serialize)]
pub struct MachineFeature {
    /// The name of the part.
    name: &'static str,
    /// True if this user can use it.
    present: bool,
    /// The use that a pool has for it.
    used_for: &'static str,
    /// The way to switch it on, if it is missing and useful.
    pub advice: Option<String>,
}

impl MachineFeature {
    fn of(name: &'static str, used_for: &'static str, missing: Option<String>) -> Self {
        let advice = missing.map(|why| format!("{name}: {why}"));
        Self { name, present: advice.is_none(), used_for, advice }
    }

    /// Returns the part as a line.
    pub fn show(&self) -> String {
        let found = if self.present { "yes" } else { "no" };
        format!("  {:<17} {found:<4} {}\n", self.name, self.used_for)
    }
}

/// A limit of the kernel or of a folder.
#[derive(Debug, Serialize)]
pub struct Limit {
    /// The name of the limit.
    name: &'static str,
    /// The value, or `None` without a limit.
    value: Option<u64>,
    /// True if the value is in bytes.
    #[serde(skip)]
    is_bytes: bool,
}

impl Limit {
    /// Returns the limit as a line.
    pub fn show(&self) -> String {
        let value = match self.value {
            None => "none".into(),
            Some(bytes) if self.is_bytes => size::show(bytes),
            Some(count) => count.to_string(),
        };
        format!("  {:<17} {value}\n", self.name)
    }
}

/// Returns `advice` unless a part `is_present`.
fn unless(is_present: bool, advice: &str) -> Option<String> {
    (!is_present).then(|| advice.into())
}

/// Returns each part, present or missing.
pub fn features() -> Vec<MachineFeature> {
    let has = |path: &str| Path::new(path).exists();
    let nodes = unless(has("/sys/block/nbd0"), "the driver is not loaded: as root `modprobe nbd`");
    vec![
        MachineFeature::of(
            "protection keys",
            "stray writes of the server fault, for a few ns a write (--guard keys)",
            unless(
                Guard::Keys.ensure_available().is_ok(),
                "the processor or its virtual machine has none (Intel since 2017, AMD since Zen 3); `--guard pagetable` \
                 is slower",
            ),
        ),
        MachineFeature::of(
            "clwb",
            "lines reach persistent memory and stay in the cache (--scheme clwb)",
            unless(Scheme::Clwb.ensure_available().is_ok(), "the processor has none; the default scheme needs none"),
        ),
        MachineFeature::of(
            "huge pages",
            "a pool in memory costs fewer TLB misses",
            unless(
                has("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"),
                "the kernel is built without CONFIG_TRANSPARENT_HUGEPAGE; a mount of hugetlbfs has huge pages, too",
            ),
        ),
        MachineFeature::of(
            "persistent memory",
            "a completed write survives power loss",
            unless(
                fs::read_dir("/sys/bus/nd/devices").is_ok_and(|mut devices| devices.next().is_some()),
                "there is no NVDIMM; a kernel started with memmap=4G!12G emulates one",
            ),
        ),
        MachineFeature::of("FUSE", "file systems are mounted (`ferrite fs mount`)", lacks::to_mount_in_line()),
        MachineFeature::of("loop", "/dev nodes of disks without the kernel's NBD", LOOP.missing()),
        MachineFeature::of("nbd", "/dev nodes of disks by the kernel's NBD (`ferrite disk attach`)", nodes),
        MachineFeature {
            name: "ublk",
            present: has("/dev/ublk-control"),
            used_for: "nothing: nodes use nbd or loop",
            advice: None,
        },
        MachineFeature::of(
            "userfaultfd",
            "guest memory in a program's address space",
            TrapRegion::new(4096).err().map(|error| error.to_string()),
        ),
    ]
}

/// Returns the limits of this process and the space in `dir`.
pub fn limits(dir: &Path) -> Vec<Limit> {
    let of = |resource| getrlimit(resource).current;
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = rustix::fs::statvfs(dir).ok().map(|found| found.f_bavail * found.f_frsize);
    let bytes = |name, value| Limit { name, value, is_bytes: true };
    let count = |name, value| Limit { name, value, is_bytes: false };
    vec![
        bytes("space in DIR", free),
        bytes("available memory", available_bytes(&meminfo)),
        bytes("file size", of(Resource::Fsize)),
        bytes("address space", of(Resource::As)),
        bytes("locked memory", of(Resource::Memlock)),
        count("open files", of(Resource::Nofile)),
        count("mappings", Some(TrapRegion::mappings_max() as u64)),
    ]
}

/// Returns the bytes of memory that the kernel could give, by the text of /proc/meminfo.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_kib() {
        assert_eq!(available_bytes("MemTotal: 8 kB\nMemAvailable:    4 kB\n"), Some(4096));
        assert_eq!(available_bytes(""), None);
    }
}
