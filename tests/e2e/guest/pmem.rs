//! A machine whose persistent memory is a guest of a pool by virtio-pmem, with an unchanged QEMU and kernel.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use super::archive::Archive;
use super::machine::{FetchedKernel, Running};
use crate::programs::{client, ferrite};
use crate::server::{Server, can_attach, folder, json, ok};

const INIT: &str = include_str!("pmem.sh");

/// Programs of the machine.
const CLIENTS: [&str; 3] = ["mkfs.ext4", "e2fsck", "dd"];

/// Kernel modules in their loading order, ten at most. A missing module is built into the kernel.
const MODULES: [&str; 10] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "libnvdimm",
    "nd_btt",
    "nd_pmem",
    "nd_virtio",
    "virtio_pmem",
];

/// Files that are durable before a kill.
const FILES: u64 = 6;

/// A machine on a guest of 64 MiB that has 8 MiB of the pool.
struct PmemMachine {
    folder: tempfile::TempDir,
    kernel: FetchedKernel,
}

impl PmemMachine {
    /// Assembles the machine and makes its guest.
    ///
    /// # Errors
    /// Returns the name of a component that this machine lacks.
    fn build() -> Result<Self, String> {
        let kernel = FetchedKernel::find()?;
        let mut archive = Archive::default();
        for folder in ["/proc", "/sys", "/dev", "/tmp", "/etc", "/mnt"] {
            archive.folder(folder);
        }
        archive.file("/init", INIT.as_bytes());
        archive.link("/etc/mtab", "/proc/mounts");
        archive.client("busybox");
        archive.link("/bin/busybox", "/usr/sbin/busybox");
        CLIENTS.iter().for_each(|name| archive.client(name));
        kernel.add_modules(&mut archive, &MODULES);
        let machine = Self { folder: folder(true), kernel };
        fs::write(machine.at("initramfs"), archive.finish()).expect("written");
        let [pool, image] = ["pool", "image"].map(|name| machine.at(name));
        ok(&["pool", "create", &pool, "--size", "24M"]);
        ok(&["guest", "create", &pool, "g", "--size", "64M", "--pm", "8M", "--disk", &image]);
        Ok(machine)
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_owned()
    }

    /// Makes the guest a file, and this command the owner of the pool.
    fn attach(&self) -> Server {
        let mut command = ferrite();
        command.args(["guest", "attach", &self.at("pool"), "g", "--path", &self.at("file")]).stderr(Stdio::null());
        Server::of(&mut command, Path::new(&self.at("pool")), "g is ")
    }

    /// Boots the machine, in which `files` are durable.
    fn start(&self, files: Option<u64>) -> Running {
        let arguments = ok(&["guest", "arguments", &self.at("pool"), "g", "--for", "qemu-pmem"]);
        let words = files.map_or_else(String::new, |files| format!(" PMEM_FILES={files}"));
        let mut qemu = client("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35", "-m", "512M,slots=1,maxmem=2G"]);
        qemu.arg("-kernel").arg(&self.kernel.kernel).args(["-initrd", &self.at("initramfs")]);
        qemu.args(["-append", &format!("console=ttyS0 quiet panic=-1{words}"), "-nodefaults", "-display", "none"]);
        qemu.args(["-no-reboot", "-serial", &format!("file:{}", self.at("console")), "-serial", "stdio"]);
        qemu.args(arguments.split_whitespace());
        let errors = File::create(self.at("errors")).expect("made");
        let child = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
        Running::of(child.unwrap_or_else(|error| panic!("{qemu:?}: {error}")), None)
    }

    /// Returns the lines of the machine up to the one that reports `files` as durable.
    fn lines_until(&self, running: &mut Running, files: u64) -> Vec<String> {
        let (mut lines, last) = (Vec::new(), format!("durable {}", files - 1));
        while lines.last() != Some(&last) {
            match running.line() {
                Some(line) => lines.push(line),
                None => panic!("{last} did not come: {lines:#?}\n{}", self.console()),
            }
        }
        lines
    }

    fn console(&self) -> String {
        let texts = ["errors", "console"].map(|name| fs::read(self.at(name)).unwrap_or_default());
        String::from_utf8_lossy(&texts.concat()).into_owned()
    }
}

/// AF1, by a machine: QEMU, or QEMU and the owner of the pool are killed while the machine writes and flushes. The file
/// system needs no repair, and each file whose fsync returned is whole.
#[test]
fn kill_of_a_machine_with_virtio_pmem_loses_nothing_durable() {
    if std::env::var_os("FERRITE_GUEST").is_some() || !can_attach() {
        return;
    }
    let machine = match PmemMachine::build() {
        Ok(machine) => machine,
        Err(lacking) => return println!("skipped: {lacking}"),
    };
    let mut server = machine.attach();
    let mut running = machine.start(None);
    let lines = machine.lines_until(&mut running, FILES);
    assert!(lines.contains(&"mounted dax=always".into()), "{lines:#?}\n{}", machine.console());
    // The gate kills both at once. A soak also kills QEMU alone.
    let rounds = if std::env::var_os("FERRITE_ROUNDS").is_some() { 4 } else { 1 };
    for round in 1..=rounds {
        let durable = round * FILES;
        if round % 2 == 1 {
            server.kill();
            drop(running);
            server = machine.attach();
        } else {
            drop(running);
        }
        running = machine.start(Some(durable));
        let lines = machine.lines_until(&mut running, durable + FILES);
        assert!(lines.contains(&"clean".into()), "{lines:#?}\n{}", machine.console());
        let whole = lines.iter().filter(|line| line.starts_with("whole ")).count();
        assert_eq!(whole as u64, durable, "{lines:#?}\n{}", machine.console());
    }
    let stat = json(&["guest", "stat", &machine.at("pool"), "g"]);
    assert!(stat["counts"]["promoted_pages"].as_u64() > Some(0), "{stat}");
    drop(running);
    server.interrupt();
    ok(&["pool", "check", &machine.at("pool")]);
}
