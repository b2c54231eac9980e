//! QEMU, and the system that it boots.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::archive::Archive;
use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{folder, json, ok, signal};

const INIT: &str = include_str!("init.sh");

/// The longest time that a guest may run.
const PATIENCE: Duration = Duration::from_secs(600);

/// Clients that the tests run in the guest.
const CLIENTS: [&str; 13] = [
    "mkfs.ext4",
    "e2fsck",
    "mount",
    "umount",
    "fstrim",
    "sfdisk",
    "wipefs",
    "blockdev",
    "tar",
    "diff",
    "sync",
    "kill",
    "dd",
];

/// Kernel modules in their loading order. A missing module is built into the kernel.
const MODULES: [&str; 20] = [
    "libnvdimm",
    "nd_btt",
    "nfit",
    "nd_pmem",
    "nd_e820",
    "device_dax",
    "dax_pmem",
    "cxl_acpi",
    "cxl_pci",
    "cxl_mem",
    "cxl_pmem",
    "nbd",
    "loop",
    "fuse",
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
];

/// Name and size in MiB of each disk, which the guest's kernel calls vda, vdb, and so on.
const DISKS: [(&str, u64); 3] = [("disk", 65), ("ssd0", 32), ("ssd1", 32)];

/// The number and the size in MiB of each NVDIMM.
const NVDIMMS: [(u32, u32); 2] = [(0, 256), (1, 128)];

/// The kernel parameter that reserves memory as if it were persistent.
const MEMMAP: &str = "memmap=64M!512M";

/// Name and size in MiB of the CXL device's files: its memory and its labels.
const CXL: [(&str, u32); 2] = [("cxl", 256), ("labels", 1)];

/// Debian's kernel, which the gate has fetched.
pub struct FetchedKernel {
    /// The folder with the files of its package.
    pub fetched: PathBuf,
    /// The image that QEMU boots.
    pub kernel: PathBuf,
}

impl FetchedKernel {
    /// Finds the kernel, and QEMU.
    ///
    /// # Errors
    /// Returns the name of a component that this machine lacks.
    pub fn find() -> Result<Self, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("the guest's kernel is one for x86_64".into());
        }
        if client("qemu-system-x86_64").arg("-version").output().is_err() {
            return Err("qemu-system-x86_64 is not installed: `cargo xtask test` installs it".into());
        }
        let built = ferrite_path();
        let target = built.ancestors().nth(2).unwrap_or(Path::new("."));
        let fetched = target.join("guest");
        let kernel = fs::read_dir(fetched.join("boot")).ok().and_then(|entries| {
            entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("vmlinuz"))
        });
        let lacking = || format!("no kernel in {}: `cargo xtask test` fetches it", fetched.display());
        Ok(Self { kernel: kernel.ok_or_else(lacking)?, fetched })
    }

    /// Adds the kernel's modules of these `names` to `archive`, in their order. A missing one is built into the kernel.
    pub fn add_modules(&self, archive: &mut Archive, names: &[&str]) {
        let mut found = Vec::new();
        find_modules(&self.fetched.join("lib/modules"), &mut found);
        for (nth, name) in names.iter().enumerate() {
            let is_it = |path: &&PathBuf| {
                path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&format!("{name}.ko")))
            };
            if let Some(path) = found.iter().find(is_it) {
                archive.file(&format!("/modules/{nth}-{name}.ko"), &fs::read(path).expect("a module"));
            }
        }
    }
}

/// A machine whose memory and disks are files. A test can start it again and again.
pub struct Machine {
    folder: TempDir,
    kernel: PathBuf,
    /// The pool whose guest "g" is the first NVDIMM, by `ferrite guest run`.
    region: Option<String>,
}

impl Machine {
    /// Assembles the machine.
    ///
    /// # Errors
    /// Returns the name of a component that this machine lacks.
    pub fn build() -> Result<Self, String> {
        let kernel = FetchedKernel::find()?;
        let initramfs = content(&kernel);
        let machine = Self { folder: folder(true), kernel: kernel.kernel, region: None };
        fs::write(machine.initramfs(), initramfs).expect("the guest's first file system is written");
        Ok(machine)
    }

    /// Makes the first NVDIMM a guest with a quarter of its bytes in a pool.
    pub fn on_region(mut self) -> Self {
        let at = |name: &str| self.folder.path().join(name).to_str().expect("text").to_owned();
        let (pool, (_, mib)) = (at("pool"), NVDIMMS[0]);
        ok(&["pool", "create", &pool, "--size", &format!("{mib}M")]);
        let (size, pm) = (format!("{mib}M"), format!("{}M", mib / 4));
        ok(&["guest", "create", &pool, "g", "--size", &size, "--pm", &pm, "--disk", &at("image")]);
        self.region = Some(pool);
        self
    }

    fn initramfs(&self) -> PathBuf {
        self.folder.path().join("initramfs")
    }

    /// Returns the last messages of QEMU and the kernel.
    pub fn console(&self) -> String {
        let texts = ["qemu", "console"].map(|name| fs::read(self.folder.path().join(name)).unwrap_or_default());
        String::from_utf8_lossy(&texts.concat()).into_owned()
    }

    /// Starts the machine. Its first process gets `told` as its parameters.
    pub fn start(&self, told: &[(&str, String)]) -> Running {
        let words: String = told.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let mut qemu = client("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
        let cxl = self.cxl();
        let machine = if cxl.is_empty() { "" } else { ",cxl=on" };
        // The firmware reports that stores persist from the memory controller on.
        qemu.args(["-machine", &format!("q35,nvdimm=on,nvdimm-persistence=mem-ctrl{machine}")]);
        qemu.args(["-m", "1280M,slots=4,maxmem=4G"]).args(cxl);
        for (number, mib) in NVDIMMS.into_iter().skip(usize::from(self.region.is_some())) {
            let file = self.folder.path().join(format!("nvdimm{number}"));
            let memory = format!("memory-backend-file,id=m{number},share=on,mem-path={},size={mib}M", file.display());
            qemu.args(["-object", &memory, "-device", &format!("nvdimm,id=n{number},memdev=m{number}")]);
        }
        for (name, mib) in DISKS {
            let file = self.folder.path().join(name);
            let opened = File::options().create(true).truncate(false).write(true).open(&file);
            opened.and_then(|file| file.set_len(mib << 20)).expect("made");
            let drive = format!("if=none,id={name},format=raw,cache=writeback,file={}", file.display());
            qemu.args(["-drive", &drive, "-device", &format!("virtio-blk-pci,bus=pcie.0,drive={name}")]);
        }
        qemu.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(self.initramfs());
        qemu.args(["-append", &format!("console=ttyS0 quiet panic=-1 {MEMMAP}{words}")]);
        qemu.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial"]);
        qemu.arg(format!("file:{}", self.folder.path().join("console").display())).args(["-serial", "stdio"]);
        let errors = File::create(self.folder.path().join("qemu")).expect("made");
        let mut qemu = match &self.region {
            Some(pool) => on_region(pool, &qemu),
            None => qemu,
        };
        let child = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
        Running::of(child.unwrap_or_else(|error| panic!("{qemu:?}: {error}")), self.region.clone())
    }
}

impl Machine {
    /// Returns QEMU's arguments for a persistent CXL device, or none if this QEMU has no such device.
    fn cxl(&self) -> Vec<String> {
        let help = client("qemu-system-x86_64").args(["-device", "cxl-type3,help"]).output();
        let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let Some(memory) = ["persistent-memdev", "memdev"].into_iter().find(|name| help.contains(&format!("{name}=")))
        else {
            return Vec::new();
        };
        let backing = |(name, mib)| {
            let file = self.folder.path().join(name);
            [
                "-object".to_owned(),
                format!("memory-backend-file,id={name},share=on,mem-path={},size={mib}M", file.display()),
            ]
        };
        let device = format!("cxl-type3,bus=cxlport,{memory}=cxl,lsa=labels,sn=4660");
        let words = [
            "-device",
            "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxlbridge",
            "-device",
            "cxl-rp,port=0,bus=cxlbridge,id=cxlport,chassis=0,slot=2",
            "-device",
            &device,
            "-M",
            "cxl-fmw.0.targets.0=cxlbridge,cxl-fmw.0.size=1G",
        ];
        CXL.into_iter().flat_map(backing).chain(words.map(str::to_owned)).collect()
    }
}

/// Returns `qemu` on the guest of `pool`.
fn on_region(pool: &str, qemu: &Command) -> Command {
    let arguments = ok(&["guest", "arguments", pool, "g", "--for", "qemu"]);
    let mut command = ferrite();
    command.args(["guest", "run", pool, "g", "--"]).arg(qemu.get_program()).args(qemu.get_args());
    command.args(arguments.split_whitespace());
    command
}

/// Returns an archive of the guest's programs, modules and first process.
fn content(kernel: &FetchedKernel) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in ["/proc", "/sys", "/dev", "/run", "/tmp", "/root", "/etc", "/mnt"] {
        archive.folder(folder);
    }
    archive.file("/init", INIT.as_bytes());
    archive.link("/etc/mtab", "/proc/mounts");
    archive.client("busybox");
    archive.link("/bin/busybox", "/usr/sbin/busybox");
    CLIENTS.iter().for_each(|name| archive.client(name));
    archive.program("/usr/bin/ferrite", &ferrite_path());
    archive.program("/e2e", &std::env::current_exe().expect("this program"));
    kernel.add_modules(&mut archive, &MODULES);
    archive.finish()
}

fn find_modules(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() { find_modules(&path, found) } else { found.push(path) }
    }
}

/// A running machine. Dropping it cuts the power.
pub struct Running {
    qemu: Child,
    /// As [`Machine::region`]: QEMU is a child of `qemu` then, and outlives it.
    region: Option<String>,
    lines: Receiver<String>,
    until: Instant,
}

impl Running {
    /// Reads the lines of `qemu`, whose output is the guest's second port.
    pub fn of(mut qemu: Child, region: Option<String>) -> Self {
        let output = BufReader::new(qemu.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { qemu, region, lines, until: Instant::now() + PATIENCE }
    }

    /// Returns the next line of the guest, or `None` after its end or after the time limit.
    pub fn line(&mut self) -> Option<String> {
        self.lines.recv_timeout(self.until.saturating_duration_since(Instant::now())).ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        if let Some(pool) = &self.region {
            let user = || json(&["guest", "list", pool])[0]["pid"].as_u64();
            user().into_iter().for_each(|pid| signal(pid as u32, "KILL"));
            while user().is_some() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
