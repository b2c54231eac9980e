//! Widely used clients, as installed on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ferrite_disk::{Disk, RamDisk, StatsDisk};
use ferrite_nbd::{Listening, Server};
use tempfile::{TempDir, tempdir};

use super::disks::{Named, Probe, server};

/// Size of the disk, in bytes.
const SIZE: u64 = 16 << 20;

/// A served disk with a directory for its socket and for files.
struct Stage {
    dir: TempDir,
    disk: Arc<StatsDisk<RamDisk>>,
    _listening: Listening,
}

impl Stage {
    fn new() -> Self {
        let (dir, disk) = (tempdir().unwrap(), Arc::new(StatsDisk::new(RamDisk::new(SIZE))));
        let listening = server(disk.clone()).listen_unix(&dir.path().join("socket")).unwrap();
        Self { dir, disk, _listening: listening }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn uri(&self) -> String {
        uri(self.dir.path())
    }

    /// Creates a file as large as the disk, with data and holes.
    fn image(&self, name: &str) -> (PathBuf, Vec<u8>) {
        let mut bytes = vec![0; SIZE as usize];
        for at in (0..bytes.len()).filter(|at| (at >> 20) % 3 == 0) {
            bytes[at] = (at % 253) as u8;
        }
        fs::write(self.path(name), &bytes).unwrap();
        (self.path(name), bytes)
    }

    fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; SIZE as usize];
        self.disk.read(0, &mut bytes).unwrap();
        bytes
    }
}

fn uri(dir: &Path) -> String {
    format!("nbd+unix:///?socket={}", dir.join("socket").display())
}

/// Runs `program` and returns its output. Debian's programs go first, because libnbd is a module of its Python.
pub fn run(program: &str, package: &str, args: &[&str]) -> String {
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    let output = match Command::new(program).args(args).env("PATH", path).output() {
        Ok(output) => output,
        Err(error) => panic!("{program}: {error}; install the Debian package {package}"),
    };
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}{err}", output.status);
    out
}

/// nbdinfo sees name, description, sizes and every capability, lists the exports, and maps data and holes.
#[test]
fn nbdinfo_describes_the_disk() {
    let stage = Stage::new();
    let shown = run("nbdinfo", "libnbd-bin", &["--json", &stage.uri()]);
    for expected in [
        r#""protocol": "newstyle-fixed""#,
        r#""structured": true"#,
        r#""export-name": "disk0""#,
        r#""description": "the first disk""#,
        r#""base:allocation""#,
        r#""block_size_minimum": 512"#,
        r#""block_size_preferred": 4096"#,
        r#""block_size_maximum": 33554432"#,
        r#""export-size": 16777216"#,
        r#""is_read_only": false"#,
    ] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    for able in ["cache", "df", "fast_zero", "flush", "fua", "multi_conn", "trim", "zero"] {
        assert!(shown.contains(&format!(r#""can_{able}": true"#)), "{able} is not in\n{shown}");
    }
    assert!(run("nbdinfo", "libnbd-bin", &["--list", &stage.uri()]).contains("export=\"disk0\""));
    stage.disk.write(1 << 20, &[1; 4096], ferrite_disk::Access::Cached).unwrap();
    let map = run("nbdinfo", "libnbd-bin", &["--map", &stage.uri()]);
    let rows: Vec<Vec<_>> = map.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows, [["0", "1048576", "3"], ["1048576", "4096", "0"], ["1052672", "15724544", "3"]]);
}

/// nbdcopy fills the disk over several connections, and copies it back unchanged.
#[test]
fn nbdcopy_copies_both_ways() {
    let stage = Stage::new();
    let (image, bytes) = stage.image("image");
    run("nbdcopy", "libnbd-bin", &["--connections=4", "--flush", image.to_str().unwrap(), &stage.uri()]);
    assert!(stage.content() == bytes);
    let back = stage.path("back");
    run("nbdcopy", "libnbd-bin", &["--connections=4", &stage.uri(), back.to_str().unwrap()]);
    assert!(fs::read(back).unwrap() == bytes);
    assert!(stage.disk.stats().flushes > 0);
}

/// qemu-img converts an image onto the disk, finds them equal, and finds the first byte that differs.
#[test]
fn qemu_img_converts_and_compares() {
    let stage = Stage::new();
    let (image, bytes) = stage.image("image");
    let raw = ["-f", "raw", "-O", "raw"];
    let (image, uri) = (image.to_str().unwrap(), stage.uri());
    run("qemu-img", "qemu-utils", &[&["convert", "-n"][..], &raw, &[image, &uri]].concat());
    assert!(stage.content() == bytes);
    run("qemu-img", "qemu-utils", &["compare", "-f", "raw", "-F", "raw", image, &uri]);
    let back = stage.path("back");
    run("qemu-img", "qemu-utils", &[&["convert"][..], &raw, &[&uri, back.to_str().unwrap()]].concat());
    assert!(fs::read(back).unwrap() == bytes);
}

/// qemu-io writes, zeroes, discards and flushes, with FUA too, and its own verification finds what it wrote.
#[test]
fn qemu_io_verifies_patterns() {
    let stage = Stage::new();
    let script = [
        "write -P 0xab 0 1M",
        "write -f -P 0xcd 1M 64k",
        "read -P 0xab 0 1M",
        "read -P 0xcd 1M 64k",
        "write -z 64k 64k",
        "read -P 0 64k 64k",
        "write -z -u 0 4k",
        "write -z -f 4k 4k",
        "read -P 0 0 8k",
        "discard 1M 64k",
        "flush",
        "write -P 0x11 15M 1M",
        "read -P 0x11 15M 1M",
    ];
    let args: Vec<&str> = script.iter().flat_map(|line| ["-c", line]).collect();
    let uri = stage.uri();
    let shown = run("qemu-io", "qemu-utils", &[&["-f", "raw"][..], &args, &[&uri]].concat());
    assert!(!shown.contains("failed"), "{shown}");
}

/// fio with several jobs, sizes from a sector to 256 KiB and many requests at once reads back the checksums that it
/// wrote.
#[test]
fn fio_verifies_checksums() {
    let stage = Stage::new();
    let output = stage.path("fio");
    let (uri, output) = (format!("--uri={}", stage.uri()), format!("--output={}", output.display()));
    let fixed = "--name=verify --ioengine=nbd --rw=randrw --bsrange=512-256k --bs_unaligned=0 --iodepth=32 --size=4m \
                 --numjobs=4 --offset_increment=4m --verify=crc32c --do_verify=1 --verify_fatal=1 --randseed=1 \
                 --verify_state_save=0 --fsync=64 --thread --group_reporting";
    let args: Vec<&str> = fixed.split_whitespace().chain([uri.as_str(), output.as_str()]).collect();
    run("fio", "fio", &args);
    let stats = stage.disk.stats();
    assert!(stats.writes > 0 && stats.reads > 0, "{stats:?}");
}

/// A script of libnbd's own shell sends every command and the errors that libnbd allows.
#[test]
fn nbdsh_speaks_every_command() {
    let dir = tempdir().unwrap();
    let fixed = ferrite_disk::ReadOnlyDisk::new(RamDisk::new(8192));
    let exports = Named(vec![("disk0", Probe::new()), ("fixed", Arc::new(fixed))]);
    let server = Server::new(Arc::new(exports), Default::default());
    let _listening = server.listen_unix(&dir.path().join("socket")).unwrap();
    let script = dir.path().join("script.py");
    fs::write(&script, include_str!("script.py")).unwrap();
    let shown = run("/usr/bin/python3", "python3-libnbd", &[script.to_str().unwrap(), &uri(dir.path())]);
    assert_eq!(shown.trim(), "done");
}
