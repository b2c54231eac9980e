//! Refusals: wrong options, and pools that are missing, corrupt, in use or full.

use super::{Row, Workshop};

/// A script that mistypes an option learns it by the exit status, before anything has happened.
#[test]
fn wrong_usage_of_each_command_is_told_before_anything_happens() {
    let workshop = Workshop::new();
    workshop.assert_rows(&[
        Row("up --colour", 2, "error: unexpected argument '--colour' found"),
        Row("up --disk nosize", 2, "error: invalid value 'nosize' for '--disk <NAME=SIZE>': write NAME=SIZE, such as disk0=512M"),
        Row("up --no-disk --disk a=1M", 2, "error: the argument '--no-disk' cannot be used with '--disk <NAME=SIZE>'"),
        Row("status --pool x", 2, "error: unexpected argument '--pool' found"),
        Row("down --now", 2, "error: unexpected argument '--now' found"),
        Row("pool", 2, ""),
        Row("pool create pool", 2, "ferrite: a new pool needs a --size, such as --size 1G"),
        Row("pool create pool --size 1K", 2, "ferrite: a pool has 8 MiB at least"),
        Row("pool create pool --size ten", 2, "error: invalid value 'ten' for '--size <SIZE>': \"ten\" is no size: write 4096, 512K, 64M, 1.5G or 2T, in powers of 1024"),
        Row("pool info --yaml", 2, "error: unexpected argument '--yaml' found"),
        Row("pool check pool --lose d", 2, "error: the following required arguments were not provided:"),
        Row("pool backup pool -", 2, "ferrite: a backup is a file that appears whole or not at all: name one, `./-` if it is to be called so"),
        Row("pool restore image", 2, "error: the following required arguments were not provided:"),
        Row("pool grow pool --size 0", 2, "error: invalid value '0' for '--size <SIZE>': \"0\" is out of range: sizes are of 1 byte to 8388607T"),
        Row("pool defrag --quick", 2, "error: unexpected argument '--quick' found"),
        Row("pool wear pool --top -1", 2, "error: invalid value '-1' for '--top <TOP>': write a whole number, 0 or more, in digits"),
        Row("tag list a b", 2, "error: unexpected argument 'b' found"),
        Row("tag put", 2, "error: the following required arguments were not provided:"),
        Row("tag get", 2, "error: the following required arguments were not provided:"),
        Row("tag remove --all", 2, "error: unexpected argument '--all' found"),
        Row("disk create pool d", 2, "error: the following required arguments were not provided:"),
        Row("disk create pool d --size 1M --sector 513", 2, "error: invalid value '513' for '--sector <SECTOR>': 512 or 4096"),
        Row("disk list --long", 2, "error: unexpected argument '--long' found"),
        Row("disk remove", 2, "error: the following required arguments were not provided:"),
        Row("disk resize pool d --size -1", 2, "error: invalid value '-1' for '--size <SIZE>': \"-1\" is no size: write 4096, 512K, 64M, 1.5G or 2T, in powers of 1024"),
        Row("disk serve pool d --scheme fast", 2, "ferrite: there is no scheme \"fast\": give nt, flush, clwb, clflushopt, clflush, writeback, writeback-all or writethrough"),
        Row("disk attach pool d --guard magic", 2, "ferrite: there is no guard \"magic\": give none, pagetable, private, keys, keys=strict or buffered"),
        Row("disk detach", 2, "error: the following required arguments were not provided:"),
        Row("disk stat", 2, "error: the following required arguments were not provided:"),
        Row("disk fault pool d", 2, "ferrite: name the pool, a disk and its plan: `ferrite disk fault POOL ADDRESS PLAN`"),
        Row("disk fault pool d fail", 2, "error: invalid value 'fail' for '[PLAN]': fault plan: `fail` is not an action: use error, hang, corrupt, truncate=BYTES or drop"),
        Row("disk copy image", 2, "error: the following required arguments were not provided:"),
        Row("disk copy image -", 2, "error: invalid value '-' for '<TO>': - is not a disk, which is read and written at any place: name a file (./- if it is called so)"),
        Row("disk copy hdd-7201:image copy", 2, "error: invalid value 'hdd-7201:image' for '<FROM>': no simulated drive is called \"hdd-7201\": choose one of hdd-7200, hdd-15000, hdd-5400, ssd-x25e, ssd-sata, ssd-nvme, ssd-nvme-plp, ftl-page, ftl-fast; a pool or file of that name is ./hdd-7201"),
        Row("disk copy image pool:", 2, "error: invalid value 'pool:' for '<TO>': pool: names no disk of that pool: write pool:NAME (`ferrite disk list` prints the names)"),
        Row("disk export image", 2, "error: the following required arguments were not provided:"),
        Row("disk export image --unix s --trace image", 2, "ferrite: --trace names image itself: name another file"),
        Row("wal stat --all", 2, "error: unexpected argument '--all' found"),
        Row("wal drain --now", 2, "error: unexpected argument '--now' found"),
        Row("wal forget", 2, "error: the following required arguments were not provided:"),
        Row("fs create pool f --super-threshold 1M", 2, "error: invalid value '1M' for '--super-threshold <SIZE>': 2 MiB, which is one such page, to 128 TiB, which the largest file has, or never"),
        Row("fs list --long", 2, "error: unexpected argument '--long' found"),
        Row("fs remove", 2, "error: the following required arguments were not provided:"),
        Row("fs mount f", 2, "error: the following required arguments were not provided:"),
        Row("fs mount pool f m --cached --data atomic", 2, "ferrite: --cached and --data atomic exclude each other: the kernel would cut writes into pages"),
        Row("fs unmount", 2, "error: the following required arguments were not provided:"),
        Row("fs stat", 2, "error: the following required arguments were not provided:"),
        Row("fs check --all", 2, "error: unexpected argument '--all' found"),
        Row("bench nonsense", 2, "ferrite: there is no experiment \"nonsense\"; the experiments are:"),
        Row("sim llc", 2, "ferrite: name a program to run with its arguments, or a trace with --trace"),
        Row("sim ftl", 2, "error: the following required arguments were not provided:"),
        Row("sim convert none", 2, "error: the following required arguments were not provided:"),
        Row("nonsense", 2, "error: unrecognized subcommand 'nonsense'"),
    ]);
    assert_eq!(std::fs::read_dir(workshop.0.path()).expect("there").count(), 0, "a refused command makes nothing");
}

#[test]
fn a_missing_pool_or_file_is_named_with_what_to_do() {
    let workshop = Workshop::with_pool();
    workshop.assert_rows(&[
        Row("down none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("pool info none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("pool check none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("pool backup none image2", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("pool restore none pool2", 1, "ferrite: opening none: No such file or directory (os error 2)"),
        Row("pool grow none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("pool defrag none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("tag list none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("tag put none t image", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("tag put pool t none", 1, "ferrite: opening none: No such file or directory (os error 2)"),
        Row("tag get pool none", 1, "ferrite: there is no tag called \"none\": see `ferrite tag list`"),
        Row("tag remove pool none", 1, "ferrite: there is no tag called \"none\": see `ferrite tag list`"),
        Row("disk list none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("disk create none d --size 1M", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("disk stat pool none", 1, "ferrite: there is no disk called \"none\": see `ferrite disk list`"),
        Row("disk serve pool none", 1, "ferrite: there is no disk called \"none\": see `ferrite disk list`, or `ferrite disk create` it"),
        Row("disk remove pool none", 1, "ferrite: there is no disk called \"none\": see `ferrite disk list`"),
        Row("disk detach pool d", 1, "ferrite: \"d\" is not attached"),
        Row("disk copy none copy", 1, "ferrite: there is no file none: name one that exists, or POOL:NAME for a disk in a pool"),
        Row("disk copy image ./image", 2, "ferrite: ./image is image itself: name two disks"),
        Row("disk copy . copy", 1, "ferrite: . is a folder: name a file in it, or a block device"),
        Row("disk copy none:d copy", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("disk copy pool:none copy", 1, "ferrite: there is no disk called \"none\": see `ferrite disk list`, or `ferrite disk create` it"),
        Row("disk copy nbds://host/d copy", 1, "ferrite: nbds://host/d: this client does not speak TLS; write nbd+unix:///NAME?socket=PATH or nbd://HOST[:PORT]/NAME"),
        Row("disk copy image none/copy", 1, "ferrite: making none/copy: No such file or directory (os error 2)"),
        Row("disk export none --unix s", 1, "ferrite: there is no file none: name one that exists, or POOL:NAME for a disk in a pool"),
        Row("wal stat none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("wal drain none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("fs list none", 1, "ferrite: there is no none: `ferrite pool create none --size 1G` makes a pool, `ferrite up --pool none` one with a disk in it"),
        Row("fs stat pool none", 1, "ferrite: there is no file system called \"none\": see `ferrite fs list`"),
        Row("fs mount pool none m", 1, "ferrite: there is no file system called \"none\": see `ferrite fs list`, or `ferrite fs create` it"),
        Row("fs unmount pool none", 1, "ferrite: there is no file system called \"none\": see `ferrite fs list`"),
        Row("pool info image", 1, "ferrite: image is no pool: it has 1 MiB and the smallest has 8 MiB; make one with `ferrite pool create`"),
        Row("pool info .", 1, "ferrite: . is a folder: name a file in it"),
        Row("sim llc --trace none", 1, "ferrite: opening none: No such file or directory (os error 2)"),
    ]);
    for name in ["copy", "image2", "pool2", "m", "s"] {
        assert!(!workshop.has(name), "{name} was made for nothing");
    }
}

/// A corrupt pool stays as it is: no command opens it, and each says which one looks into it.
#[test]
fn a_corrupt_pool_is_refused_by_each_command() {
    let workshop = Workshop::with_pool();
    workshop.corrupt();
    let before = std::fs::read(workshop.0.path().join("pool")).expect("read");
    workshop.assert_rows(&[
        Row("up --pool pool --no-attach --no-mount", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("pool info pool", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("pool check pool", 1, ""),
        Row("pool backup pool image2", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("pool grow pool --size 64M", 1, "ferrite: growing pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("pool defrag pool", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("tag list pool", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("disk list pool", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("disk copy pool:d copy", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("disk copy image pool", 1, "ferrite: pool holds a pool, which would be lost: name another file"),
        Row("wal stat pool", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("fs list pool", 1, "ferrite: pool: the superblock at byte 0x0 of the pool is corrupt: run `ferrite pool check`, or restore a backup"),
        Row("pool create pool --size 32M", 1, "ferrite: pool holds a damaged pool, or one of a newer version. Its 33554432 bytes would be lost: --lose 33554432 loses them"),
    ]);
    let after = std::fs::read(workshop.0.path().join("pool")).expect("read");
    assert!(before == after && !workshop.has("copy") && !workshop.has("image2"));
    let report: serde_json::Value =
        serde_json::from_slice(&workshop.run("pool check pool --json").stdout).expect("JSON beside the failure");
    assert_eq!((&report["sound"], &report["opened"]), (&false.into(), &false.into()));
}

#[test]
fn a_pool_in_use_is_named_with_its_process() {
    let workshop = Workshop::with_pool();
    let server = workshop.start("up --pool pool --no-attach --no-mount", "Ctrl-C ends it.");
    workshop.assert_rows(&[
        Row("up --pool pool --no-attach --no-mount", 1, "ferrite: pool is held by process PID (ferrite up --pool pool --no-attach --no-mount); other commands work beside it"),
        Row("pool create pool --size 32M", 1, "ferrite: pool is held by process PID (ferrite up --pool pool --no-attach --no-mount): end that first"),
        Row("pool check pool --repair", 1, "ferrite: pool is held by process PID (ferrite up --pool pool --no-attach --no-mount): a repair needs the pool alone, so end that first"),
        Row("pool grow pool --size 64M", 1, "ferrite: pool is held by process PID (ferrite up --pool pool --no-attach --no-mount): end that first"),
        Row("pool defrag pool", 1, "ferrite: pool is held by process PID (ferrite up --pool pool --no-attach --no-mount): end that first"),
        Row("disk serve pool d --guard none", 1, "ferrite: pool is held by process PID (ferrite up --pool pool --no-attach --no-mount): its guard, pace, wear and trust hold for all of it, so end that first to choose others"),
        Row("disk copy image pool", 1, "ferrite: pool holds a pool, which would be lost: name another file"),
        Row("pool info pool", 0, ""),
        Row("disk list pool", 0, ""),
    ]);
    assert_eq!(server.interrupt(), Some(0));
}

/// A full pool says what to do, and keeps what it holds.
#[test]
fn a_full_pool_is_refused_with_ways_to_get_space() {
    let workshop = Workshop::with_pool();
    std::fs::write(workshop.0.path().join("large"), vec![1; 48 << 20]).expect("written");
    let before = workshop.ok("tag list pool");
    workshop.assert_rows(&[
        Row("disk create pool e --size 1G", 1, "ferrite: the pool is full: 1.1 GiB needed, 26.0 MiB free; remove what is not needed (`ferrite disk remove`, `ferrite tag remove`), or make it larger (`ferrite pool grow`)"),
        Row("disk resize pool d --size 1G", 1, "ferrite: the pool is full: 1.1 GiB needed, 26.0 MiB free; remove what is not needed (`ferrite disk remove`, `ferrite tag remove`), or make it larger (`ferrite pool grow`)"),
        Row("tag put pool t large", 1, "ferrite: the pool is full: 48 MiB needed, 26.0 MiB free; remove what is not needed (`ferrite disk remove`, `ferrite tag remove`), or make it larger (`ferrite pool grow`)"),
        Row("disk copy large pool:e", 1, "ferrite: the pool is full: 51.1 MiB needed, 26.0 MiB free; remove what is not needed (`ferrite disk remove`, `ferrite tag remove`), or make it larger (`ferrite pool grow`)"),
        Row("disk copy large pool:d", 1, "ferrite: 48 MiB (50331648 bytes) do not fit a disk of 1 MiB (1048576 bytes): name a larger one, or grow it"),
        Row("up --pool new --size 16M --no-attach --disk e=1G", 2, "ferrite: a pool of 16 MiB has no room for these disks and a file system: --size 1100M at least"),
    ]);
    assert_eq!(workshop.ok("tag list pool"), before);
    assert!(!workshop.has("new") && workshop.ok("pool check pool").contains("sound"));
}
