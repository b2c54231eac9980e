//! Machines of folders and files: what each medium of them survives.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use Survives::{No, NotKnown, Yes};
use machine::{ASKED, Files, Machine};

mod machine;

fn expect(found: &Survival, (kernel, power): (Survives, Survives), word: &str) {
    let states = (found.kernel_crash.survives, found.power_loss.survives);
    assert_eq!(states, (kernel, power), "{word}: {found:?}");
    assert_eq!(found.process_crash.survives, Yes);
    assert!(found.power_loss.why.contains(word), "{word}: {found:?}");
}

/// A machine is set up by `set_up` and asked about [`ASKED`].
fn file_of(set_up: impl FnOnce(&mut Machine)) -> Survival {
    let mut machine = Machine::new();
    set_up(&mut machine);
    machine.asked()
}

#[test]
fn a_file_system_survives_what_its_kind_and_its_server_do() {
    for kind in ["tmpfs", "ramfs", "hugetlbfs", "rootfs", "devtmpfs"] {
        let found = file_of(|it| it.mount(ASKED, ("0:9", "/data", kind), "x rw"));
        expect(&found, (No, No), &format!("{kind}, which is memory"));
    }
    for kind in ["fuse", "fuse.sshfs", "fuseblk", "nfs4", "cifs", "ceph", "9p", "virtiofs"] {
        let found = file_of(|it| it.mount(ASKED, ("0:9", "/data", kind), "x rw"));
        expect(&found, (NotKnown, NotKnown), &format!("{kind}, whose server decides"));
    }
    let found = file_of(|it| it.mount(ASKED, ("0:9", "/data", "newfs"), "x rw"));
    expect(&found, (NotKnown, NotKnown), "newfs, a file system of which Ferrite knows nothing");
}

#[test]
fn a_disk_keeps_what_was_flushed() {
    for disk in ["pci/virtio1/block/vda", "pci/ata1/host0/target0/block/sda", "pci/mmc0/block/mmcblk0"] {
        for kind in ["ext2", "ext3", "ext4", "xfs"] {
            let found = file_of(|it| {
                let number = it.block(disk);
                it.mount(ASKED, (&number, "/data", kind), "/dev/x rw");
            });
            expect(&found, (Yes, Yes), "a disk that keeps what was flushed");
        }
    }
    let found = file_of(|it| {
        it.block("pci/virtio1/block/vda");
        let number = it.block("pci/virtio1/block/vda/vda2");
        it.file("sys/devices/pci/virtio1/block/vda/vda2/partition", "2");
        it.ext4(&number);
    });
    expect(&found, (Yes, Yes), "ext4 on vda, a disk");
}

/// The sample of docs/first-steps.md is the line that `ferrite up` prints.
#[test]
fn the_first_steps_show_the_line_of_a_pool_on_a_disk() {
    let found = file_of(|it| {
        let number = it.block("pci/ata1/host0/target0/block/sda");
        it.ext4(&number);
    });
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/first-steps.md")).expect("it is there");
    let line = format!("          file, {}; stray writes: held off by keys\n", found.describe(true));
    assert!(page.contains(&line), "docs/first-steps.md has no line {line:?}");
}

#[test]
fn a_device_that_is_no_disk_of_this_machine_is_told_from_one() {
    let cases = [
        ("virtual/block/zram0", No, "zram, a disk of memory"),
        ("virtual/block/ram3", No, "ram, a disk of memory"),
        ("virtual/block/nullb0", No, "nullb, a disk of memory"),
        ("pseudo_0/adapter0/host2/target/block/sdb", No, "a simulated disk"),
        ("vdpasim_blk.0/vdpa0/virtio4/block/vdb", No, "a simulated disk"),
        ("virtual/vduse/x/vdpa1/virtio5/block/vdc", NotKnown, "vduse, whose server decides"),
        ("virtual/block/nbd0", NotKnown, "nbd, whose server decides"),
        ("virtual/block/ublkb0", NotKnown, "ublkb, whose server decides"),
        ("platform/host3/session1/target/block/sdc", NotKnown, "a SCSI target"),
        ("tcm_loop_0/tcm_loop_adapter_0/host1/block/sdd", NotKnown, "a SCSI target"),
        ("virtual/block/dm-0", NotKnown, "dm, a device of which Ferrite knows nothing"),
        ("virtual/block/sdx-odd", NotKnown, "sdx-odd, a device of which Ferrite knows nothing"),
        ("virtual/block/pmem0", NotKnown, "pmem, a device of which Ferrite knows nothing"),
    ];
    for (device, state, word) in cases {
        let found = file_of(|it| {
            let number = it.block(device);
            it.ext4(&number);
        });
        expect(&found, (state, state), word);
        // Used as a device, without a file system.
        let mut machine = Machine::new();
        machine.block(device);
        expect(&System::new(machine.path()).block_device(8, 1), (state, state), word);
    }
}

#[test]
fn an_nvme_drive_is_a_disk_if_its_controllers_are_on_pci_express() {
    let of = |transports: &[&str]| {
        file_of(|it| {
            let number = it.block("virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
            for (nth, transport) in transports.iter().enumerate() {
                it.file(&format!("sys/devices/c/nvme{nth}/transport"), &format!("{transport}\n"));
                let link = format!("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme{nth}");
                it.link(&link, &format!("sys/devices/c/nvme{nth}"));
            }
            it.ext4(&number);
        })
    };
    expect(&of(&["pcie"]), (Yes, Yes), "nvme0n1");
    for transports in [&["tcp"][..], &["pcie", "rdma"], &["loop"], &[]] {
        expect(&of(transports), (NotKnown, NotKnown), "whose target decides");
    }
    let found = file_of(|it| {
        let number = it.block("pci/nvme/nvme0/nvme0n1");
        it.file("sys/devices/pci/nvme/nvme0/transport", "pcie\n");
        it.ext4(&number);
    });
    expect(&found, (Yes, Yes), "nvme0n1");
}

#[test]
fn the_least_of_several_devices_counts() {
    let over = |others: &[&str]| {
        file_of(|it| {
            let number = it.block("virtual/block/md0");
            it.block("virtual/block/dm-1");
            it.block("pci/block/sda");
            it.slave("virtual/block/md0", "virtual/block/dm-1");
            it.slave("virtual/block/dm-1", "pci/block/sda");
            for other in others {
                it.block(other);
                it.slave("virtual/block/md0", other);
            }
            it.ext4(&number);
        })
    };
    expect(&over(&[]), (Yes, Yes), "ext4 on md on dm on sda, a disk");
    expect(&over(&["virtual/block/zram0"]), (No, No), "ext4 on md on zram");
    expect(&over(&["virtual/block/nbd0"]), (NotKnown, NotKnown), "ext4 on md on nbd");
    expect(&over(&["virtual/block/nbd0", "virtual/block/ram0"]), (No, No), "ext4 on md on ram");
}

#[test]
fn a_loop_device_survives_what_its_file_does() {
    let over = |backing: &str| {
        file_of(|it| {
            let number = it.block("virtual/block/loop0");
            it.file("sys/devices/virtual/block/loop0/loop/backing_file", &format!("{backing}\n"));
            let disk = it.block("pci/block/vda");
            it.mount(1, (&disk, "/", "ext4"), "/dev/vda rw");
            it.mount(2, ("0:5", "/dev/shm", "tmpfs"), "tmpfs rw");
            for there in ["srv/image", "dev/shm/image", "dev/shm/vda"] {
                it.file(there, "");
            }
            it.ext4(&number);
        })
    };
    expect(&over("/srv/image"), (Yes, Yes), "ext4 on loop device on ext4 on vda");
    expect(&over("/dev/shm/image"), (No, No), "ext4 on loop device on tmpfs, which is memory");
    expect(&over("/dev/shm/vda"), (No, No), "tmpfs, which is memory");
    expect(&over("/dev/vda"), (Yes, Yes), "ext4 on loop device on vda");
    for gone in ["/srv/image (deleted)", "/srv/other", "image", "", "/../../../../../srv/other"] {
        expect(&over(gone), (NotKnown, NotKnown), "not visible here");
    }
}

#[test]
fn an_overlay_survives_what_its_upper_layer_does() {
    let over = |options: &str| {
        file_of(|it| {
            let disk = it.block("pci/block/vda");
            it.mount(1, (&disk, "/", "ext4"), "/dev/vda rw");
            it.mount(2, ("0:5", "/run", "tmpfs"), "tmpfs rw");
            for there in ["up er/x", "run/upper/x"] {
                it.file(there, "");
            }
            it.mount(ASKED, ("0:7", "/data", "overlay"), &format!("overlay {options}"));
        })
    };
    expect(&over("rw,lowerdir=/l,upperdir=/up\\040er,workdir=/w"), (Yes, Yes), "overlay on ext4 on vda");
    expect(&over("rw,lowerdir=/l,upperdir=/run/upper,workdir=/w"), (No, No), "overlay on tmpfs, which is memory");
    expect(&over("rw,lowerdir=/l,upperdir=/up\\040er,workdir=/w,volatile"), (No, No), "not synced");
    expect(&over("rw,lowerdir=/l,upperdir=/var/lib/elsewhere"), (NotKnown, NotKnown), "not visible here");
    expect(&over("ro,lowerdir=/l:/m"), (NotKnown, NotKnown), "no upper layer");
    let itself = file_of(|it| {
        it.file("upper/x", "");
        it.mount(ASKED, ("0:7", "/", "overlay"), "overlay rw,upperdir=/upper");
    });
    expect(&itself, (NotKnown, NotKnown), "more layers than Ferrite follows");
}

#[test]
fn a_btrfs_survives_what_all_its_devices_do() {
    let of = |second: &str, source: &str| {
        file_of(|it| {
            it.block("pci/block/sda");
            it.block(second);
            it.link("dev/mapper/data", "dev/sda");
            let name = second.rsplit('/').next().expect("a name");
            it.link("sys/fs/btrfs/1234/devices/sda", "sys/devices/pci/block/sda");
            it.link(&format!("sys/fs/btrfs/1234/devices/{name}"), &format!("sys/devices/{second}"));
            it.mount(ASKED, ("0:40", "/data", "btrfs"), &format!("{source} rw"));
        })
    };
    expect(&of("pci/block/sdb", "/dev/sda"), (Yes, Yes), "btrfs on sda");
    expect(&of("virtual/block/ram0", "/dev/mapper/data"), (No, No), "btrfs on ram");
    expect(&of("pci/block/sdb", "/dev/root"), (NotKnown, NotKnown), "/sys does not list");
}

#[test]
fn options_that_keep_flushes_from_the_disk_are_seen() {
    for option in ["nobarrier", "barrier=0", "logdev=/dev/ram0", "rtdev=/dev/sdb"] {
        let found = file_of(|it| {
            let number = it.block("pci/block/sda");
            it.mount(ASKED, (&number, "/data", "xfs"), &format!("/dev/sda rw,{option}"));
        });
        expect(&found, (NotKnown, NotKnown), "with the option");
    }
}

const NFIT: &str = "LNXSYSTM:00/ACPI0012:00/ndbus0";

#[test]
fn a_region_survives_what_its_provider_says() {
    let pmem = ("region0/devtype", "nd_pmem\n");
    let domain = |text| ("region0/persistence_domain", text);
    let nfit = ("provider", "ACPI.NFIT\n");
    let cases: [(&str, Files<'_>, (Survives, Survives), &str); 12] = [
        (NFIT, &[nfit, pmem, domain("memory_controller\n")], (Yes, Yes), "what reached the memory controller"),
        (NFIT, &[nfit, pmem, domain("cpu_cache\n")], (Yes, Yes), "what reached the processor's caches"),
        (NFIT, &[nfit, pmem], (NotKnown, NotKnown), "does not say when stores persist"),
        (NFIT, &[nfit, pmem, domain("\n")], (NotKnown, NotKnown), "does not say when stores persist"),
        (NFIT, &[nfit, domain("cpu_cache\n")], (NotKnown, NotKnown), "of a kind"),
        (NFIT, &[nfit, ("region0/devtype", "nd_volatile\n"), domain("cpu_cache\n")], (No, No), "calls volatile"),
        (
            NFIT,
            &[
                nfit,
                pmem,
                domain("cpu_cache\n"),
                ("region0/mapping0", "nmem0,0,1,0\n"),
                ("nmem0/nfit/flags", "not_armed smart\n"),
            ],
            (No, No),
            "not armed",
        ),
        ("platform/e820_pmem/ndbus0", &[("provider", "e820\n"), pmem], (NotKnown, No), "memmap="),
        (
            "platform/ACPI0017:00/root0/nvdimm-bridge0/ndbus0",
            &[("provider", "CXL\n"), pmem, domain("memory_controller\n")],
            (Yes, Yes),
            "CXL",
        ),
        ("pci/virtio3/ndbus0", &[("provider", "virtio-pmem\n"), pmem], (NotKnown, NotKnown), "whose host decides"),
        (
            "platform/nfit_test.0/ndbus0",
            &[("provider", "nfit_test.0\n"), pmem, domain("cpu_cache\n")],
            (NotKnown, NotKnown),
            "provider",
        ),
        (NFIT, &[pmem, domain("cpu_cache\n")], (NotKnown, NotKnown), "provider"),
    ];
    for (bus, files, states, word) in cases {
        let mut machine = Machine::new();
        let number = machine.region(bus, files);
        machine.ext4(&number);
        expect(&machine.asked(), states, word);
        expect(&machine.asked_dax(), states, word);
    }
}

#[test]
fn device_dax_without_a_region_is_volatile_or_not_known() {
    let cases = [
        ("platform/hmem.0/dax0.0", No, "hmem"),
        ("platform/hmem_platform/hmem.1/dax0.0", No, "hmem"),
        ("platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0", No, "CXL memory"),
        ("platform/somewhere/dax0.0", NotKnown, "knows nothing"),
    ];
    for (folder, state, word) in cases {
        let machine = Machine::new();
        machine.file(&format!("sys/devices/{folder}/size"), "1");
        machine.link("sys/dev/char/250:1", &format!("sys/devices/{folder}"));
        expect(&machine.asked_dax(), (state, state), word);
    }
}

#[test]
fn what_is_missing_or_makes_no_sense_is_not_known() {
    let unknown = |found: Survival, word| expect(&found, (NotKnown, NotKnown), word);
    unknown(Machine::new().asked(), "does not list");
    unknown(Machine::new().asked_dax(), "a device that /sys does not list");
    unknown(System::new(Path::new("/nowhere")).file(None), "does not list");
    unknown(file_of(|it| it.ext4("8:77")), "/sys does not list");
    unknown(
        file_of(|it| it.file("proc/self/mountinfo", "99 1 x / /data rw - ext4 /dev/vda\n\0\u{ff}")),
        "does not list",
    );
    // A device that lies on itself, by one layer and by two, and twice.
    let cycle = |names: &[&str]| {
        file_of(|it| {
            let numbers: Vec<String> = names.iter().map(|name| it.block(&format!("virtual/block/{name}"))).collect();
            for one in names {
                for other in names {
                    it.slave(&format!("virtual/block/{one}"), &format!("virtual/block/{other}"));
                }
            }
            it.ext4(&numbers[0]);
        })
    };
    unknown(cycle(&["dm-0"]), "more layers than Ferrite follows");
    unknown(cycle(&["dm-0", "dm-1", "md0"]), "more layers than Ferrite follows");
    // A link that leads nowhere, and one that leads out of /sys.
    unknown(
        file_of(|it| {
            let number = it.block("virtual/block/dm-0");
            it.slave("virtual/block/dm-0", "virtual/block/gone");
            it.ext4(&number);
        }),
        "/sys does not list",
    );
    let outside = file_of(|it| {
        symlink("/", it.path().join("sys/dev/block/8:1")).expect("linked");
        it.ext4("8:1");
    });
    unknown(outside, "/sys does not list");
}
