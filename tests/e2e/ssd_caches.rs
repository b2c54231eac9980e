//! Caches of SSDs before a slow disk, as their users meet them: fio over NBD, devices that fail, killed servers.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cache_setup::{CachedDisk, DISK_BYTES, KEEPS_DIRTY, ended, longest, number, started};
use crate::kill::{Seed, kill_round_count};
use crate::programs::{client, ferrite};
use crate::server::{Server, json, ok, refused, run, signal, wait};

/// Bytes of a block of a cache.
const BLOCK: usize = 4096;
/// The blocks that a kill test writes to.
const BLOCKS: u64 = 4096;

/// CA5, CA15: what is dirty is on both SSDs, which wear alike, and every read gives what was written.
#[test]
fn a_cached_hard_disk_gives_what_was_written_and_wears_its_ssds_alike() {
    let mut cached = CachedDisk::new("hdd-7200:", "ssd-sata:", &[]).serve();
    run(&mut cached.verifying("48M"));
    let stat = cached.stat();
    let inserts = [0, 1].map(|ssd| number(&stat["ssds"][ssd]["inserts"]));
    assert!(inserts[0].abs_diff(inserts[1]) <= 2 && inserts[0] > 0, "{stat}");
    assert_eq!((number(&stat["bytes"]["lost"]), number(&stat["bytes"]["single"])), (0, 0), "{stat}");
    assert!(number(&stat["bytes"]["dirty"]) > 0, "{stat}");
    cached.assert_sound();
    cached.server().interrupt();
}

/// CA5: the failure of an SSD under load loses nothing, and what had its only other copy there gets a second place.
#[test]
fn an_ssd_that_fails_under_load_loses_nothing() {
    let mut cached = CachedDisk::new("", "fault:none:", &[]).serve();
    let fio = started(&mut cached.verifying("300M"));
    std::thread::sleep(Duration::from_millis(700));
    cached.fault("s1", "error@from=0");
    ended(fio);
    let stat = cached
        .await_stat("nothing is single", |stat| stat["ssds"][1]["state"] == "failed" && stat["bytes"]["single"] == 0);
    assert!(stat["ssds"][1]["why"].as_str().is_some_and(|why| !why.is_empty()), "{stat}");
    assert_eq!(number(&stat["bytes"]["lost"]), 0, "{stat}");
    run(&mut cached.verifying("16M"));
    cached.server().interrupt();
}

/// An SSD that does not answer holds its clients up for the time limit, and then no more.
#[test]
fn an_ssd_that_hangs_under_load_is_left_after_its_time_limit() {
    let mut cached = CachedDisk::new("", "fault:none:", &["--ssd-timeout", "1s"]).serve();
    let fio = started(&mut cached.verifying("300M"));
    std::thread::sleep(Duration::from_millis(700));
    cached.fault("s1", "hang@from=0");
    let longest = longest(&ended(fio));
    assert!(longest < Duration::from_secs(15), "{longest:?}");
    let stat = cached.await_stat("it has failed", |stat| stat["ssds"][1]["state"] == "failed");
    assert_eq!(number(&stat["bytes"]["lost"]), 0, "{stat}");
    cached.server().kill();
}

/// CA10: an SSD that shrinks gives no wrong byte.
#[test]
fn an_ssd_that_is_truncated_under_load_gives_no_wrong_byte() {
    let mut cached = CachedDisk::new("", "", &[]).serve();
    let fio = started(&mut cached.verifying("300M"));
    std::thread::sleep(Duration::from_millis(700));
    fs::File::options().write(true).open(cached.path("s1")).expect("opened").set_len(0).expect("truncated");
    ended(fio);
    run(&mut cached.verifying("16M"));
    assert_eq!(number(&cached.stat()["bytes"]["lost"]), 0);
    cached.server().interrupt();
}

/// CA2, CA14: after each kill every completed write is there, and the dirty part and the SSDs are as they were.
#[test]
fn kill_of_the_server_under_load_loses_no_completed_write() {
    let mut cached = CachedDisk::new("", "", &[]).serve();
    for round in 0..kill_round_count() {
        let seed = format!("--randseed={round}");
        // One request at a time: the state that fio saves takes a request for completed that many later ones overtook.
        let words = ["--rw=randwrite", "--iodepth=1", "--verify=crc32c", "--do_verify=0", "--size=512M", &seed];
        let fio = started(cached.fio(&words).arg("--verify_state_save=1"));
        cached.await_stat("fio writes", |stat| number(&stat["requests"]["writes"]) > 500);
        std::thread::sleep(Duration::from_millis(170 * (round % 5)));
        cached.server().kill();
        let output = fio.wait_with_output().expect("it ends");
        assert!(!output.status.success(), "the server was killed too late");
        if round % 2 == 1 {
            let again = Server::start(cached.pool.as_ref(), &["--no-attach", "--no-disk"]);
            again.kill();
        }
        cached.start();
        let only =
            ["--rw=randwrite", "--verify=crc32c", "--verify_only=1", "--verify_state_load=1", "--verify_fatal=1"];
        run(cached.fio(&only).args(["--iodepth=1", "--size=512M", &seed]));
        let stat = cached.stat();
        assert_eq!((number(&stat["bytes"]["lost"]), stat["ssds"][1]["state"].as_str()), (0, Some("online")), "{stat}");
        cached.assert_sound();
    }
    cached.server().interrupt();
}

/// The blocks of the cached disk and of the disk behind it, from their starts.
fn first_blocks(cached: &CachedDisk) -> [Vec<u8>; 2] {
    let back = cached.path("back");
    let count = format!("count={}", (BLOCKS * BLOCK as u64) >> 20);
    let (from, to) = (format!("if={}", cached.uri()), format!("of={}", back.display()));
    run(client("qemu-img").args(["dd", "-f", "raw", "-O", "raw", "bs=1M", &count, &from, &to]));
    let data_at = number(&cached.stat()["disks"][0]["data_at"]) as usize;
    let raw = fs::read(cached.path("disk")).expect("read");
    [fs::read(back).expect("read"), raw[data_at..][..BLOCKS as usize * BLOCK].to_vec()]
}

/// CA2, CA5: after each kill the dirty blocks are those that the disk lacks, block by block: each completed write, and
/// perhaps the one that the kill interrupted. A clean brings them to the disk.
#[test]
fn kill_of_the_server_keeps_the_dirty_set_block_by_block() {
    let mut cached = CachedDisk::new("", "", &KEEPS_DIRTY).serve();
    let start = crate::kill::number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={start}");
    let mut seed = Seed(start);
    let mut expected = vec![0; BLOCKS as usize];
    for round in 0..kill_round_count() {
        let value = 1 + (round % 250) as u8;
        let writes: Vec<usize> = (0..40_000).map(|_| seed.below(BLOCKS) as usize).collect();
        let lines: String = writes.iter().map(|block| format!("write -P {value} {} 4k\n", block * BLOCK)).collect();
        fs::write(cached.path("writes"), lines).expect("written");
        let mut qemu = client("qemu-io");
        qemu.args(["-f", "raw", &cached.uri()]).stdin(fs::File::open(cached.path("writes")).expect("opened"));
        // A pipe that nothing reads would stop the writes.
        qemu.stdout(fs::File::create(cached.path("said")).expect("made")).stderr(Stdio::null());
        let mut qemu = qemu.spawn().expect("it starts");
        let least = 200 + seed.below(2000);
        cached.await_stat("writes", |stat| number(&stat["requests"]["writes"]) > least);
        cached.server().kill();
        qemu.wait().expect("it ends");
        let text = fs::read_to_string(cached.path("said")).expect("read");
        let done = text.lines().filter(|line| line.contains("wrote 4096/4096")).count();
        assert!((200..writes.len()).contains(&done), "{done} writes were completed in round {round}");
        writes[..done].iter().for_each(|block| expected[*block] = value);
        cached.start();
        let [content, raw] = first_blocks(&cached);
        let blocks = |bytes: &[u8]| bytes.chunks(BLOCK).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let (content, raw) = (blocks(&content), blocks(&raw));
        for (block, bytes) in content.iter().enumerate() {
            let is_interrupted = writes[done] == block && *bytes == [value; BLOCK];
            let is_expected = *bytes == [expected[block]; BLOCK];
            assert!(is_expected || is_interrupted, "round {round}, block {block}: {}", bytes[0]);
            expected[block] = bytes[0];
        }
        let lacking = content.iter().zip(&raw).filter(|(cached, raw)| cached != raw).count();
        let stat = cached.stat();
        assert_eq!(number(&stat["bytes"]["dirty"]), (lacking * BLOCK) as u64, "round {round}: {stat}");
        assert!(raw.iter().all(|bytes| *bytes == [0; BLOCK]), "the disk got a block before the clean");
    }
    ok(&["cache", "clean", &cached.pool, "c"]);
    let [content, raw] = first_blocks(&cached);
    assert!(content == raw, "the disk behind the cache has other bytes");
    assert_eq!(number(&cached.stat()["bytes"]["dirty"]), 0);
    cached.assert_sound();
    cached.server().interrupt();
}

/// CA6: after a clean, the raw disk has everything.
#[test]
fn a_cleaned_cache_leaves_a_complete_disk_and_a_second_clean_has_nothing_to_do() {
    let mut cached = CachedDisk::new("", "", &KEEPS_DIRTY).serve();
    run(&mut cached.fio(&["--rw=randwrite", "--size=64M"]));
    assert!(number(&cached.stat()["bytes"]["dirty"]) > 0);
    let cleaned = json(&["cache", "clean", &cached.pool, "c"]);
    assert_eq!(cleaned["dirty_bytes"], 0);
    let begun = Instant::now();
    ok(&["cache", "clean", &cached.pool, "c"]);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let data_at = number(&cached.stat()["disks"][0]["data_at"]) as usize;
    cached.server().interrupt();
    let copy = cached.path("copy");
    ok(&["disk", "copy", &format!("{}:c", cached.pool), copy.to_str().expect("text")]);
    let (copy, raw) = (fs::read(copy).expect("read"), fs::read(cached.path("disk")).expect("read"));
    assert!(copy[..] == raw[data_at..data_at + copy.len()], "the disk behind the cache has other bytes");
}

/// Ctrl-C of `clean` ends it at once, and what is dirty stays.
#[test]
fn a_clean_that_is_interrupted_loses_nothing() {
    let mut cached = CachedDisk::new("hdd-7200:", "", &KEEPS_DIRTY);
    cached.start();
    let words = ["--rw=randwrite", "--verify=crc32c", "--size=256M", "--io_size=16M", "--randseed=7"];
    run(cached.fio(&words).args(["--do_verify=0", "--verify_state_save=0"]));
    let mut clean = started(ferrite().args(["cache", "clean", &cached.pool, "c"]));
    std::thread::sleep(Duration::from_millis(700));
    signal(clean.id(), "INT");
    let status = wait(&mut clean, Duration::from_secs(5));
    assert_eq!(status, Some(1), "it ended before the signal, or not at all");
    assert!(number(&cached.stat()["bytes"]["dirty"]) > 0, "it was stopped in the middle");
    run(cached.fio(&words).arg("--verify_only=1"));
    cached.server().interrupt();
}

/// CA7, CA17: a long stream goes around the cache, and what is dirty in its middle is read right.
#[test]
fn a_stream_goes_around_the_cache_and_its_dirty_blocks_are_read_right() {
    let mut cached = CachedDisk::new("", "", &[]).serve();
    let verify = ["--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1"];
    run(cached.fio(&["--rw=randwrite", "--offset=64M", "--size=8M", "--do_verify=0"]).args(verify));
    let stream = ["--rw=write", "--bs=1M", "--iodepth=4", "--size=128M"];
    run(cached.fio(&stream).args(verify));
    let stat = cached.stat();
    assert!(number(&stat["around"]["sequential"]) > 112 << 20, "{stat}");
    cached.server().interrupt();
}

/// A change of the mode holds at once and disturbs no client.
#[test]
fn the_mode_changes_under_load() {
    let mut cached = CachedDisk::new("", "", &[]).serve();
    let fio = started(&mut cached.verifying("200M"));
    for mode in ["write-through", "write-around", "write-back"] {
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        let changed = json(&["cache", "set", &cached.pool, "c", "--mode", mode]);
        assert!(begun.elapsed() < Duration::from_secs(1), "{mode}: {:?}", begun.elapsed());
        assert_eq!(changed["mode"], mode);
    }
    ended(fio);
    cached.server().interrupt();
}

/// Misses of one connection are in flight at the disk together: a hard disk answers many in a better order.
#[test]
fn misses_reach_the_disk_at_the_depth_of_the_client() {
    let mut cached = CachedDisk::new("hdd-7200:", "", &[]).serve();
    let iops = |depth: &str, seed: &str| {
        let words = ["--rw=randread", "--size=448M", "--runtime=3", "--time_based=1", depth, seed];
        let told = ended(started(&mut cached.fio(&words)));
        told["jobs"][0]["read"]["iops"].as_f64().expect("a rate")
    };
    let (one, many) = (iops("--iodepth=1", "--randseed=1"), iops("--iodepth=32", "--randseed=2"));
    assert!(many >= 2.0 * one, "{one} at depth 1, {many} at depth 32");
    cached.server().interrupt();
}

/// Two writers of one SSD would destroy each other's data; a pool on a member would wait for itself.
#[test]
fn members_are_used_by_their_cache_alone() {
    let mut cached = CachedDisk::new("", "", &[]).serve();
    let path = |name: &str| cached.text(name);
    let (other, disk) = (path("other"), path("more"));
    ok(&["pool", "create", &other, "--size", "256M"]);
    fs::File::create(&disk).expect("made").set_len(DISK_BYTES).expect("sized");
    let create = ["cache", "create", &other, "c", "--disk", &disk, "--ssd", &path("s0"), "--ssd", &path("s1")];
    let said = refused(ferrite().args(create), 1);
    assert!(said.contains("s0") && said.contains("cache"), "{said}");
    refused(ferrite().args(["disk", "export", &path("s1"), "--unix", &path("socket")]), 1);
    for member in ["disk", "s0"] {
        let said = refused(ferrite().args(["pool", "create", &path(member), "--size", "64M"]), 1);
        assert!(said.contains(member), "{said}");
    }
    let said = refused(ferrite().args(["disk", "create", &cached.pool, "c", "--size", "1M"]), 1);
    assert!(said.contains("a cache"), "{said}");
    cached.server().interrupt();
}

/// The end of a server says how much only the cache has, and the next one goes on with that.
#[test]
fn a_server_that_ends_says_what_the_disk_lacks() {
    let mut cached = CachedDisk::new("", "", &["--destage-rate", "0", "--dirty-age", "0"]);
    let mut up = ferrite();
    up.args(["up", "--pool", &cached.pool, "--no-mount", "--no-attach", "--no-disk"]).stderr(Stdio::piped());
    let mut server = Server::of(&mut up, cached.pool.as_ref(), "Ctrl-C ends it.");
    run(&mut cached.fio(&["--rw=randwrite", "--size=4M"]));
    signal(server.pid(), "TERM");
    let said = server.said_until("newer in the caches");
    assert!(said.contains("4 MiB are newer in the caches"), "{said}");
    assert_eq!(server.ended(), Some(0));
    let server = Server::start_as_program(&["up", "--pool", &cached.pool, "--no-mount", "--no-attach", "--no-disk"]);
    let caches = server.told()["caches"].clone();
    assert_eq!((number(&caches[0]["dirty_bytes"]), number(&caches[0]["ssds_online"])), (4 << 20, 2), "{caches}");
    cached.server = Some(server);
    let status = ok(&["status"]);
    assert!(status.contains("cache     c ") && status.contains("2 of 2 SSDs online"), "{status}");
    cached.server().interrupt();
}
