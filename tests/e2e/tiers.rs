//! File systems that are larger than their pool, as their users meet them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::direct::counted;
use crate::kill::kill_round_count;
use crate::mount::can_mount;
use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, refused};

/// Bytes of the pool and of the SSD.
const POOL: &str = "96M";
const SSD_BYTES: u64 = 512 << 20;
/// Bytes of a file, and how many files are more than the pool has room for.
const FILE_BYTES: usize = 4 << 20;
const FILES: u64 = 60;

/// A pool in memory, the file of an SSD, and a folder to mount on.
struct TieredPlace {
    _folder: TempDir,
    pool: PathBuf,
    ssd: PathBuf,
    at: PathBuf,
}

impl TieredPlace {
    fn new() -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let folder = folder(true);
        let [pool, ssd, at] = ["pool", "ssd", "mnt"].map(|name| folder.path().join(name));
        Some(Self { _folder: folder, pool, ssd, at })
    }

    fn start(&self) -> Server {
        let (at, ssd) = (self.at.to_str().expect("text"), format!("{}={SSD_BYTES}", self.ssd.display()));
        Server::start(&self.pool, &["--size", POOL, "--no-disk", "--no-attach", "--mount", at, "--ssd", &ssd])
    }

    fn stat(&self) -> Value {
        json(&["fs", "stat", self.at.to_str().expect("text")])
    }

    fn file(&self, number: u64) -> PathBuf {
        self.at.join(format!("file{number}"))
    }
}

fn content(number: u64) -> Vec<u8> {
    let mut state = number * 2 + 1;
    let mut bytes = Vec::with_capacity(FILE_BYTES);
    while bytes.len() < FILE_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend((state >> 20).to_le_bytes());
    }
    bytes
}

fn assert_files(place: &TieredPlace) {
    for number in 0..FILES {
        let read = fs::read(place.file(number)).expect("read");
        assert!(read == content(number), "{} has other bytes", place.file(number).display());
    }
}

/// TI1, TI2, TI5: more than twice what the pool has room for is there, after a kill too, and its space comes back.
#[test]
fn a_file_system_holds_more_than_its_pool() {
    let Some(place) = TieredPlace::new() else { return };
    let server = place.start();
    for number in 0..FILES {
        fs::write(place.file(number), content(number)).expect("written");
    }
    let stat = place.stat();
    assert!(stat["tier"]["away_bytes"].as_u64() > Some(100 << 20), "{stat}");
    assert!(stat["space"]["total_bytes"].as_u64() > Some(SSD_BYTES), "{stat}");
    assert_files(&place);
    server.kill();
    assert_sound(&place.pool);
    let server = place.start();
    assert_files(&place);
    for number in 0..FILES {
        fs::remove_file(place.file(number)).expect("removed");
    }
    let stat = place.stat();
    assert_eq!(stat["tier"]["away_bytes"], 0, "{stat}");
    // It fills again.
    for number in 0..FILES {
        fs::write(place.file(number), content(number)).expect("written again");
    }
    assert_files(&place);
    server.interrupt();
    assert_sound(&place.pool);
}

/// A writer of random blocks is killed with its server: each block that was written is there.
#[test]
fn kill_of_the_server_under_pressure_loses_no_completed_write() {
    let Some(place) = TieredPlace::new() else { return };
    let blocks = 160 << 20 >> 12;
    let mut versions = vec![0_u64; blocks as usize];
    let (mut version, mut server) = (0_u64, place.start());
    let path = place.at.join("blocks");
    for round in 0..kill_round_count() {
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).expect("opened");
        for step in 0..12_000_u64 {
            version += 1;
            let block = (step * 7919 + round * 104_729) % blocks;
            file.write_all_at(&version.to_le_bytes().repeat(512), block * 4096).expect("written");
            versions[block as usize] = version;
        }
        drop(file);
        server.kill();
        assert_sound(&place.pool);
        server = place.start();
        let file = File::open(&path).expect("opened");
        let mut read = vec![0; 4096];
        for (block, version) in (0..).zip(&versions).filter(|(_, version)| **version > 0) {
            file.read_exact_at(&mut read, block * 4096).expect("read");
            assert!(read == version.to_le_bytes().repeat(512), "block {block} in round {round}");
        }
    }
    assert!(place.stat()["tier"]["away_bytes"].as_u64() > Some(50 << 20));
    server.interrupt();
}

/// TI4: programs that store without system calls lose nothing to the tier, and what is away comes for them.
#[test]
fn programs_read_and_write_directly_what_comes_and_goes() {
    let Some(place) = TieredPlace::new() else { return };
    let server = place.start();
    let script = "
import os, sys
path, blocks, last = sys.argv[1], 160 << 8, {}
fd = os.open(path, os.O_RDWR | os.O_CREAT)
for turn in range(1, 60001):
    block = turn * 7919 % blocks if turn % 3 else turn * 31 % 512
    if block in last and turn % 2:
        had = os.pread(fd, 8, block * 4096 + 80)
        assert had == last[block].to_bytes(8, 'little'), (turn, block)
    os.pwrite(fd, turn.to_bytes(8, 'little') * 512, block * 4096)
    last[block] = turn
for block, turn in last.items():
    assert os.pread(fd, 4096, block * 4096) == turn.to_bytes(8, 'little') * 512, block
";
    let mut program = client("python3");
    program.args(["-c", script]).arg(place.at.join("blocks"));
    let (_, counts) = counted(&program);
    assert!(counts["direct"]["bytes"].as_u64() > Some(0), "nothing went directly: {counts}");
    assert!(place.stat()["tier"]["away_bytes"].as_u64() > Some(20 << 20), "nothing went away");
    server.interrupt();
    assert_sound(&place.pool);
}

/// TI11: a file system whose SSD is not the right one is not mounted, with the reason, and what is in its pool can be
/// read.
#[test]
fn an_ssd_that_is_missing_or_older_is_refused_in_words() {
    let Some(place) = TieredPlace::new() else { return };
    let server = place.start();
    fs::write(place.at.join("kept"), b"kept").expect("written");
    server.interrupt();
    let older = place.ssd.with_extension("older");
    fs::copy(&place.ssd, &older).expect("copied");
    let server = place.start();
    server.interrupt();
    let newest = place.ssd.with_extension("newest");
    fs::rename(&place.ssd, &newest).expect("moved");
    let [pool, at] = [&place.pool, &place.at].map(|path| path.to_str().expect("text"));
    let up = ["up", "--pool", pool, "--no-disk", "--no-attach", "--mount", at];
    let why = refused(ferrite().args(up), 1);
    assert!(why.contains("cannot be opened") && why.contains("--read-only"), "{why}");
    fs::rename(&older, &place.ssd).expect("moved");
    let why = refused(ferrite().args(up), 1);
    assert!(why.contains("is an older copy"), "{why}");
    let server = Server::start(&place.pool, &["--no-disk", "--no-attach", "--mount", at, "--read-only"]);
    assert_eq!(fs::read(place.at.join("kept")).expect("read"), b"kept");
    server.interrupt();
    fs::rename(&newest, &place.ssd).expect("moved");
    place.start().interrupt();
}

/// `up` makes the files of its SSDs, gives an older file system those that it lacks, and leaves no file if it cannot serve.
#[test]
fn up_makes_the_ssds_that_are_missing() {
    let Some(place) = TieredPlace::new() else { return };
    let [pool, at, ssd] = [&place.pool, &place.at, &place.ssd].map(|path| path.to_str().expect("text"));
    let up = |ssds: &[&str]| {
        let mut all = vec!["--size", POOL, "--no-disk", "--no-attach", "--mount", at];
        ssds.iter().for_each(|ssd| all.extend(["--ssd", ssd]));
        all.into_iter().map(String::from).collect::<Vec<_>>()
    };
    let refused_up =
        |ssd: &str, more: &[&str]| refused(ferrite().args(["up", "--pool", pool]).args(up(&[ssd])).args(more), 1);
    let why = refused_up(ssd, &[]);
    assert!(why.contains("ssd=SIZE makes one of that size"), "{why}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let why = refused_up(&format!("{ssd}=64M"), &["--metrics", &address]);
    assert!(why.contains("serving metrics"), "{why}");
    assert!(!place.ssd.exists() && !place.pool.exists(), "the new files stay behind a failure");
    let [first, second] = [format!("{ssd}=64M"), format!("{ssd}.second=64M")];
    let listed = || json(&["fs", "tier", "list", at]).as_array().map(Vec::len);
    for (ssds, count) in [(&[&*first][..], 1), (&[&first, &second], 2), (&[&second, &first], 2), (&[], 2)] {
        let all = up(ssds);
        let server = Server::start(&place.pool, &all.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(listed(), Some(count), "{ssds:?}");
        server.interrupt();
    }
    assert_sound(&place.pool);
}

/// SSDs that may hold data are refused with the number that uses them; a drain is told; what has no tier says so.
#[test]
fn ssds_are_given_to_a_file_system_that_is_not_mounted() {
    let Some(place) = TieredPlace::new() else { return };
    let pool = place.pool.to_str().expect("text");
    let [ssd, at] = [&place.ssd, &place.at].map(|path| path.to_str().expect("text"));
    ok(&["pool", "create", pool, "--size", POOL]);
    ok(&["fs", "create", pool, "f"]);
    let file = File::create(ssd).expect("made");
    file.set_len(SSD_BYTES).and_then(|()| file.write_all_at(b"data", 600_000)).expect("written");
    let why = refused(ferrite().args(["fs", "tier", "add", pool, "f", "--ssd", ssd]), 1);
    assert!(why.contains(&format!("--lose {SSD_BYTES}")), "{why}");
    ok(&["fs", "tier", "add", pool, "f", "--ssd", ssd, "--lose", &SSD_BYTES.to_string()]);
    let why = refused(ferrite().args(["fs", "tier", "add", pool, "f", "--ssd", ssd]), 1);
    assert!(!why.is_empty());
    let mut mount = ferrite();
    mount.args(["fs", "mount", pool, "f", at]);
    let server = Server::of(&mut mount, Path::new(pool), "on ");
    fs::write(place.at.join("file"), content(3)).expect("written");
    let drained = json(&["fs", "tier", "drain", at]);
    assert!(drained["tier"]["clean_bytes"].as_u64() >= Some(FILE_BYTES as u64), "{drained}");
    assert!(fs::read(place.at.join("file")).expect("read") == content(3));
    server.interrupt();
    ok(&["fs", "remove", pool, "f"]);
    assert_sound(&place.pool);
}

/// TI15, TI16: an SSD is added and another one removed while a program writes; a kill in the middle of the removal leaves a
/// state from which the same command goes on.
#[test]
fn ssds_come_and_go_while_files_are_written_and_the_server_is_killed() {
    let Some(place) = TieredPlace::new() else { return };
    let server = place.start();
    for number in 0..30 {
        fs::write(place.file(number), content(number)).expect("written");
    }
    let second = place.ssd.with_extension("second");
    File::create(&second).and_then(|file| file.set_len(SSD_BYTES)).expect("made");
    let [pool, at, first, second] =
        [&place.pool, &place.at, &place.ssd, &second].map(|path| path.to_str().expect("text"));
    let writer = std::thread::spawn({
        let path = place.at.join("changed");
        move || {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("opened");
            for round in 1..400_u64 {
                let done = file.write_all_at(&round.to_le_bytes().repeat(512), round % 100 * 4096);
                if done.is_err() {
                    return round - 1;
                }
            }
            399
        }
    });
    ok(&["fs", "tier", "add", at, "--ssd", second]);
    let listed = |at: &str| json(&["fs", "tier", "list", at]);
    assert_eq!(listed(at).as_array().map(Vec::len), Some(2));
    let mut removal = ferrite().args(["fs", "tier", "remove", at, first]).spawn().expect("it runs");
    std::thread::sleep(std::time::Duration::from_millis(100));
    server.kill();
    removal.wait().expect("it ends");
    let last = writer.join().expect("it ends");
    assert_sound(&place.pool);
    let server = Server::start(&place.pool, &["--no-disk", "--no-attach", "--mount", at]);
    let is_listed = |ssd: &Value| ssd["address"] == first;
    if listed(at).as_array().is_some_and(|all| all.iter().any(is_listed)) {
        ok(&["fs", "tier", "remove", at, first]);
    }
    let left = listed(at);
    assert!(left.as_array().is_some_and(|all| all.len() == 1 && !all.iter().any(is_listed)), "{left}");
    for number in 0..30 {
        assert!(fs::read(place.file(number)).expect("read") == content(number), "file {number}");
    }
    let changed = fs::read(place.at.join("changed")).expect("read");
    for round in last.saturating_sub(99).max(1)..=last {
        let block = &changed[(round % 100 * 4096) as usize..][..8];
        assert!(u64::from_le_bytes(block.try_into().expect("eight bytes")) >= round, "block of round {round}");
    }
    let scrubbed = json(&["fs", "tier", "scrub", at]);
    assert!(scrubbed["damaged_pages"] == 0 && scrubbed["pages"].as_u64() > Some(0), "{scrubbed}");
    server.interrupt();
    assert_sound(&place.pool);
    // The SSD that was removed has nothing that could be lost.
    let other = place.pool.with_extension("other");
    let other = other.to_str().expect("text");
    ok(&["pool", "create", other, "--size", "64M"]);
    ok(&["fs", "create", other, "f", "--ssd", first]);
    let why = refused(ferrite().args(["fs", "tier", "remove", pool, "files", first]), 1);
    assert!(why.contains("is not mounted"), "{why}");
}

/// A page on an SSD that was damaged is found by a scrub, with the path of its file, until it is overwritten.
#[test]
fn a_scrub_lists_what_is_damaged_on_an_ssd() {
    let Some(place) = TieredPlace::new() else { return };
    let server = place.start();
    for number in 0..30 {
        fs::write(place.file(number), content(number)).expect("written");
    }
    let at = place.at.to_str().expect("text");
    let away = |number: &u64| {
        let path = place.file(*number);
        let asked = ["fs", "tier", "stat", at, "--where", path.to_str().expect("text"), "--page", "3", "--json"];
        ferrite().args(asked).output().expect("it runs").status.success()
    };
    let number = (0..30).find(away).expect("some page is away");
    let path = place.file(number);
    let found = json(&["fs", "tier", "stat", at, "--where", path.to_str().expect("text"), "--page", "3"]);
    let offset = found["offset"].as_u64().expect("a number");
    let ssd = OpenOptions::new().read(true).write(true).open(&place.ssd).expect("opened");
    let mut byte = [0];
    ssd.read_exact_at(&mut byte, offset).expect("read");
    assert_eq!(byte[0], content(number)[3 * 4096]);
    ssd.write_all_at(&[!byte[0]], offset).expect("damaged");
    let scrubbed = json(&["fs", "tier", "scrub", at]);
    assert_eq!(scrubbed["damaged"][0]["path"], format!("/file{number}"), "{scrubbed}");
    assert_eq!((&scrubbed["damaged_pages"], &scrubbed["damaged"][0]["page"]), (&1.into(), &3.into()), "{scrubbed}");
    let file = OpenOptions::new().write(true).open(&path).expect("opened");
    file.write_all_at(&content(number)[3 * 4096..4 * 4096], 3 * 4096).expect("a whole page heals it");
    drop(file);
    assert_eq!(json(&["fs", "tier", "scrub", at])["damaged_pages"], 0);
    assert!(fs::read(&path).expect("read") == content(number));
    let cleaned = json(&["fs", "tier", "clean", at, "--all"]);
    assert!(cleaned["segments"]["free"].as_u64() > Some(0), "{cleaned}");
    ok(&["fs", "tier", "trim", at]);
    server.interrupt();
}

/// A backup says what no image has; with the SSD's content, pool and SSD are both restored; without it, the SSD as it was
/// belongs to the restored pool.
#[test]
fn backups_have_what_is_on_ssds_or_say_that_they_have_not() {
    let Some(place) = TieredPlace::new() else { return };
    let server = place.start();
    for number in 0..FILES {
        fs::write(place.file(number), content(number)).expect("written");
    }
    let [pool, at] = [&place.pool, &place.at].map(|path| path.to_str().expect("text"));
    let image = place.pool.with_extension("image");
    let why = refused(ferrite().args(["pool", "backup", pool]).arg(&image), 1);
    assert!(why.contains("--with-ssd") && why.contains("--without-ssd") && !image.exists(), "{why}");
    let made = json(&["pool", "backup", pool, image.to_str().expect("text"), "--with-ssd"]);
    let copy = PathBuf::from(made["ssds"][0].as_str().expect("a copy"));
    // The copy does not change with the SSD: all of its segments are written anew.
    for number in 0..FILES {
        fs::write(place.file(number), content(number + FILES)).expect("written");
    }
    server.interrupt();
    fs::remove_file(&place.pool).expect("removed");
    fs::remove_file(&place.ssd).expect("removed");
    ok(&["pool", "restore", image.to_str().expect("text"), pool]);
    fs::rename(&copy, &place.ssd).expect("moved");
    let server = Server::start(&place.pool, &["--no-disk", "--no-attach", "--mount", at]);
    assert_files(&place);
    // Killed after the backup: nothing was written to the SSD since.
    ok(&["pool", "backup", pool, image.to_str().expect("text"), "--without-ssd"]);
    server.kill();
    let restore = || {
        fs::remove_file(&place.pool).expect("removed");
        ok(&["pool", "restore", image.to_str().expect("text"), pool]);
    };
    restore();
    let server = Server::start(&place.pool, &["--no-disk", "--no-attach", "--mount", at]);
    assert_files(&place);
    server.interrupt();
    assert_sound(&place.pool);
}

/// TI18: a pool that was restored from an older image lists the files that lost pages, and takes its SSD without them.
#[test]
fn an_older_pool_lists_what_its_ssd_lost() {
    let Some(place) = TieredPlace::new() else { return };
    let [pool, at] = [&place.pool, &place.at].map(|path| path.to_str().expect("text"));
    let image = place.pool.with_extension("image");
    let server = place.start();
    for number in 0..FILES {
        fs::write(place.file(number), content(number)).expect("written");
    }
    ok(&["pool", "backup", pool, image.to_str().expect("text"), "--without-ssd"]);
    // Some files go and others come, in segments that were of those.
    for number in 0..FILES / 2 {
        fs::remove_file(place.file(number)).expect("removed");
    }
    for number in FILES..FILES * 2 {
        fs::write(place.file(number), content(number)).expect("written");
    }
    server.interrupt();
    fs::remove_file(&place.pool).expect("removed");
    ok(&["pool", "restore", image.to_str().expect("text"), pool]);
    let up = ["up", "--pool", pool, "--no-disk", "--no-attach", "--mount", at];
    let why = refused(ferrite().args(up), 1);
    assert!(why.contains("ferrite fs tier adopt"), "{why}");
    let adopt = ["fs", "tier", "adopt", pool, "files", "--json"];
    let listed = ferrite().args(adopt).output().expect("run");
    assert!(!listed.status.success());
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let (lost, files) = (listed["lost_bytes"].as_u64().expect("a number"), listed["files"].as_array().expect("files"));
    assert!(lost > 0 && !files.is_empty(), "{listed}");
    let adopted = json(&["fs", "tier", "adopt", pool, "files", "--lose", &lost.to_string()]);
    assert_eq!(adopted["is_adopted"], true);
    let server = Server::start(&place.pool, &["--no-disk", "--no-attach", "--mount", at]);
    let is_listed = |number| files.iter().any(|file| file["path"] == format!("/file{number}"));
    for number in 0..FILES {
        let read = fs::read(place.file(number));
        assert_eq!(read.is_err(), is_listed(number), "file {number}");
        assert!(read.is_err() || read.is_ok_and(|read| read == content(number)), "file {number} has other bytes");
        fs::write(place.file(number), content(number)).expect("written");
    }
    assert_files(&place);
    server.interrupt();
    assert_sound(&place.pool);
}
