//! `kill -9` of a server while programs use the file system on a node.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::programs::client;
use crate::server::{Server, assert_sound, can_attach, folder, run};
use crate::tree::Mounted;

pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Returns how often a kill test repeats: FERRITE_ROUNDS, or five times, which `cargo xtask soak` raises.
pub fn kill_round_count() -> u64 {
    number("FERRITE_ROUNDS", 5)
}

/// A small random generator, so that its seed reproduces a round.
pub struct Seed(pub u64);

impl Seed {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Returns the content of file `number` in a round.
pub fn content(round: u64, number: u64) -> Vec<u8> {
    let len = 1 + (round * 31 + number * 7919) % 40_000;
    (0..len).map(|i| ((i + number * 13 + round) % 251) as u8).collect()
}

/// Writes and fsyncs files until a write fails or `stop` is set, and counts the acknowledged files.
pub fn write_files(at: &Path, round: u64, stop: &AtomicBool, acknowledged: &AtomicU64) {
    for number in 0.. {
        let durable = File::create(at.join(format!("r{round}-{number}"))).and_then(|mut file| {
            file.write_all(&content(round, number))?;
            file.sync_all()?;
            File::open(at)?.sync_all()
        });
        if durable.is_err() || stop.load(Ordering::Relaxed) {
            break;
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// The moment at which a test kills a server: a delay after a number of fsynced files.
struct Moment {
    files: u64,
    wait: Duration,
}

/// Kills `server` under a mounted file system. Returns the next server and the number of files that were fsynced before
/// the kill. The next server starts while programs still write to the mounted file system of the killed one.
fn round(server: Server, disk: &str, at: &Path, moment: &Moment, nth: u64, next: impl Fn() -> Server) -> (Server, u64) {
    let node = server.node(disk);
    let mounted = Mounted::new(&node, at);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_files(mounted.0, nth, &stop, &acknowledged));
        while acknowledged.load(Ordering::Relaxed) < moment.files && !writer.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(moment.wait);
        server.kill();
        stop.store(true, Ordering::Relaxed);
        let next = next();
        writer.join().expect("the writer ends");
        (next, acknowledged.load(Ordering::Relaxed))
    })
}

/// Kills `rounds` servers of a pool in memory or on a file.
pub fn kill_rounds(shm: bool, disk: &str, rounds: u64) {
    if can_attach() {
        kill_rounds_at(folder(shm).path(), disk, rounds, &[]);
    }
}

/// Kills `rounds` servers of a pool in `folder`, started with `more` options: no fsynced file is lost.
pub fn kill_rounds_at(folder: &Path, disk: &str, rounds: u64, more: &[&str]) {
    let seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let mut random = Seed(seed);
    let (pool, at) = (folder.join("pool"), folder.join("mnt"));
    let sized = format!("{disk}=64M");
    let start = || Server::start(&pool, &[&["--size", "128M", "--disk", &sized], more].concat());
    let server = start();
    run(client("mkfs.ext4").args(["-q", "-F"]).arg(server.node(disk)));
    let mut server = Some(server);
    let mut total = 0;
    for nth in 0..rounds {
        let moment = Moment { files: random.below(4), wait: Duration::from_millis(5 + random.below(250)) };
        let (next, acknowledged) = round(server.take().unwrap_or_else(start), disk, &at, &moment, nth, start);
        total += acknowledged;
        let node = next.node(disk);
        // The first e2fsck replays the journal, and the second must find no error.
        let replayed = client("e2fsck").arg("-p").arg(&node).output().expect("e2fsck runs").status.code();
        assert!(matches!(replayed, Some(0 | 1)), "round {nth}: e2fsck -p says {replayed:?}");
        run(client("e2fsck").arg("-fn").arg(&node));
        {
            let mounted = Mounted::new(&node, &at);
            for number in 0..acknowledged {
                let file = mounted.0.join(format!("r{nth}-{number}"));
                let found = fs::read(&file).unwrap_or_else(|error| panic!("round {nth}: {}: {error}", file.display()));
                assert!(found == content(nth, number), "round {nth}: file {number} was fsynced and is not whole");
            }
            for file in fs::read_dir(mounted.0).expect("listed").flatten() {
                let _ = fs::remove_file(file.path());
            }
        }
        assert_sound(&pool);
        server = Some(next);
    }
    println!("{rounds} kills, {total} fsynced files, none lost");
    assert!(total > 0, "nothing was ever fsynced, so nothing was proven");
}

#[test]
fn kill_rounds_on_memory_lose_no_fsynced_file() {
    kill_rounds(true, "e2e-kill-shm", kill_round_count());
}

#[test]
fn kill_rounds_on_a_file_lose_no_fsynced_file() {
    kill_rounds(false, "e2e-kill-file", kill_round_count());
}
