//! Members of a cache of unusual sizes and kinds, and other programs that read the cache.

use std::fs;
use std::path::PathBuf;

use crate::cache_setup::{CachedDisk, DISK_BYTES, KEEPS_DIRTY, SSD_BYTES, number, sized};
use crate::programs::{client, ferrite};
use crate::server::{SmallHost, folder, json, ok, refused, run};

/// A file as a block device with sectors of 4096 bytes.
struct LoopDevice(String);

impl LoopDevice {
    /// Returns `None` if this user makes no such device.
    fn new(file: &str) -> Option<Self> {
        let made = client("losetup").args(["--find", "--show", "--sector-size", "4096", file]).output().ok()?;
        if made.status.success() {
            return Some(Self(String::from_utf8_lossy(&made.stdout).trim().into()));
        }
        println!("skipped: only root makes loop devices");
        None
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = client("losetup").args(["-d", &self.0]).output();
    }
}

/// QEMU's programs read over NBD what they wrote, from buffers, SSDs and the disk, and the raw disk has it after a clean.
#[test]
fn qemu_reads_from_a_cache_what_it_wrote() {
    let mut cached = CachedDisk::new("", "", &KEEPS_DIRTY).serve();
    let image = cached.text("image");
    let bytes: Vec<u8> = (0..24_u32 << 18).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(&image, &bytes).expect("written");
    run(client("qemu-img").args(["convert", "-n", "-f", "raw", "-O", "raw", "-S", "0", &image, &cached.uri()]));
    let equal = |cached: &CachedDisk| {
        run(client("qemu-img").args(["compare", "-f", "raw", "-F", "raw", &image, &cached.uri()]));
    };
    equal(&cached);
    run(&mut cached.writing("512M", "4M", 1));
    run(client("qemu-img").args(["convert", "-n", "-f", "raw", "-O", "raw", "-S", "0", &image, &cached.uri()]));
    let read = "read -P 0x00 512M 4k";
    refused(client("qemu-io").args(["-f", "raw", "-c", read, &cached.uri()]), 1);
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 9 511M 1M", "-c", "read -P 9 511M 1M", &cached.uri()]));
    let back = cached.text("back");
    run(client("nbdcopy").args([&cached.uri(), &back]));
    assert!(fs::read(&back).expect("read")[..bytes.len()] == bytes, "nbdcopy reads other bytes");
    ok(&["cache", "clean", &cached.pool, "c"]);
    let data_at = number(&cached.stat()["disks"][0]["data_at"]) as usize;
    cached.server().interrupt();
    let raw = fs::read(cached.path("disk")).expect("read");
    assert!(raw[data_at..][..bytes.len()] == bytes, "the disk has other bytes");
}

/// SSDs with sectors of 4096 bytes before a disk with 512, whose size is not a multiple of a block.
#[test]
fn ssds_of_large_sectors_serve_a_disk_of_an_odd_size() {
    let folder = folder(true);
    let ssds: Vec<LoopDevice> =
        ["s0", "s1"].iter().filter_map(|name| LoopDevice::new(&sized(&folder, name, SSD_BYTES))).collect();
    let [first, second] = &ssds[..] else { return };
    let disk = sized(&folder, "disk", (65 << 20) + 1536);
    let mut cached = CachedDisk::of(folder, "c", &disk, &[first.0.clone(), second.0.clone()], &[]).serve();
    let stat = cached.stat();
    assert_eq!(number(&stat["disks"][0]["size_bytes"]), 64 << 20, "whole blocks: {stat}");
    run(&mut cached.verifying("64M"));
    // Parts of blocks, on a disk that allows them.
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 5 512 1536", "-c", "read -P 5 512 1536", &cached.uri()]));
    run(&mut cached.fio(&["--rw=randrw", "--bsrange=512-16k", "--size=64M", "--io_size=24M", "--verify=crc32c"]));
    assert_eq!(number(&cached.stat()["ssds"][0]["errors"]), 0);
    cached.assert_sound();
    cached.server().interrupt();
}

/// A host without space for a file-backed SSD is as an SSD that fails: nothing is lost.
#[test]
fn a_full_host_under_an_ssd_loses_nothing() {
    let folder = folder(true);
    let Some(host) = SmallHost::new(folder.path(), "24M") else { return };
    let (disk, first) = (sized(&folder, "disk", DISK_BYTES), sized(&folder, "s0", SSD_BYTES));
    let second = host.path().join("s1");
    fs::File::create(&second).and_then(|file| file.set_len(SSD_BYTES)).expect("made");
    let ssds = [first, second.to_str().expect("text").into()];
    let mut cached = CachedDisk::of(folder, "c", &disk, &ssds, &["--dirty-max", "50%"]).serve();
    run(&mut cached.verifying("100M"));
    let stat = cached.stat();
    let errors = number(&stat["ssds"][1]["errors"]);
    assert!(errors > 0 && number(&stat["bytes"]["lost"]) == 0, "{stat}");
    cached.await_stat("everything has its copies or is on the disk", |stat| number(&stat["bytes"]["single"]) == 0);
    run(&mut cached.verifying("16M"));
    cached.assert_sound();
    cached.server().interrupt();
}

/// An SSD whose tables do not fit the pool is refused, and joins when there is space.
#[test]
fn a_full_pool_takes_no_ssd_and_goes_on() {
    let mut cached = CachedDisk::new("", "", &[]).serve();
    let large = cached.sized("s2", 16 << 30);
    let add = ["cache", "add-ssd", &cached.pool, "c", &large];
    ok(&["disk", "create", &cached.pool, "full", "--size", "160M"]);
    let said = refused(ferrite().args(add), 1);
    assert!(said.contains("the pool is full"), "{said}");
    run(&mut cached.verifying("16M"));
    assert_eq!(cached.stat()["ssds"].as_array().map(Vec::len), Some(2));
    ok(&["disk", "remove", &cached.pool, "full"]);
    assert_eq!(json(&add)["state"], "online");
    run(&mut cached.verifying("16M"));
    cached.assert_sound();
    cached.server().interrupt();
}

/// Names that are no disks are refused at once, as SSD and as disk, and harm nothing.
#[test]
fn addresses_that_are_no_disks_are_refused() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, fifo, disk, ssd) = (at("pool"), at("fifo"), sized(&folder, "disk", DISK_BYTES), at("s0"));
    ok(&["pool", "create", &pool, "--size", "128M"]);
    run(client("mkfifo").arg(&fifo));
    sized(&folder, "s0", SSD_BYTES);
    let link = at("link");
    std::os::unix::fs::symlink("pool", &link).expect("made");
    let gone = at("gone");
    let inside = format!("{pool}:c");
    for odd in [&fifo, &at(""), &pool, &link, &gone, &inside, &"/dev/null".into()] {
        for (ssd, disk) in [(odd, &disk), (&ssd, odd)] {
            let mut create = client("timeout");
            let ferrite: PathBuf = crate::programs::ferrite_path();
            create.arg("20").arg(ferrite).args(["cache", "create", &pool, "c", "--copies", "one"]);
            let output = create.args(["--ssd", ssd, "--disk", disk]).output().expect("run");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(1 | 2)), "{odd}: {output:?}");
            assert!(said.contains(odd.trim_end_matches('/')) || said.contains("pool"), "{odd}: {said}");
        }
    }
    // One file is no two members.
    for (second, disk) in [(&ssd, &disk), (&at("s1"), &ssd)] {
        sized(&folder, "s1", SSD_BYTES);
        let create = ["cache", "create", &pool, "c", "--ssd", &ssd, "--ssd", second, "--disk", disk];
        refused(ferrite().args(create), 1);
    }
    assert_eq!(json(&["cache", "list", &pool]), serde_json::json!([]));
    let made = json(&["cache", "create", &pool, "c", "--copies", "one", "--ssd", &ssd, "--disk", &disk]);
    assert_eq!(made["state"], "closed", "nothing of the refused ones is left: {made}");
}
