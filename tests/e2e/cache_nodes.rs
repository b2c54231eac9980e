//! File systems on a `/dev` node of a cached disk.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::cache_setup::CachedDisk;
use crate::kill::{Seed, content, kill_round_count, number, write_files};
use crate::programs::{client, ferrite};
use crate::server::{can_attach, json, refused, run};
use crate::tree::{Mounted, assert_equal, unpack};

/// A file system, and how it is made and checked.
struct FileSystem {
    name: &'static str,
    mkfs: &'static [&'static str],
    fsck: &'static [&'static str],
}

const EXT4: FileSystem =
    FileSystem { name: "e2e-cached-ext4", mkfs: &["mkfs.ext4", "-q", "-F"], fsck: &["e2fsck", "-fn"] };
const XFS: FileSystem =
    FileSystem { name: "e2e-cached-xfs", mkfs: &["mkfs.xfs", "-q", "-f"], fsck: &["xfs_repair", "-n"] };

impl FileSystem {
    /// Unpacks a tree, writes files until the server is killed while an SSD fails, and checks what was synced, `rounds`
    /// times.
    fn live(&self, rounds: u64) {
        if !can_attach() {
            return;
        }
        let seed = number("FERRITE_SEED", 1);
        println!("FERRITE_SEED={seed}");
        let mut random = Seed(seed);
        let mut cached = CachedDisk::named(self.name, "", "fault:none:", &[]);
        cached.start_with(&[]);
        let at = cached.path("mnt");
        let node = cached.server.as_ref().expect("it serves").node(self.name);
        run(client(self.mkfs[0]).args(&self.mkfs[1..]).arg(&node));
        {
            let mounted = Mounted::new(&node, &at);
            unpack(mounted.0);
            run(client("sync").arg("-f").arg(mounted.0));
        }
        for round in 0..rounds {
            let delay = Duration::from_millis(50 + random.below(300));
            let synced = self.killed_at(&mut cached, round, delay);
            let server = cached.server.as_ref().expect("it serves");
            let node = server.node(self.name);
            // The mount replays the journal.
            drop(Mounted::new(&node, &at));
            run(client(self.fsck[0]).args(&self.fsck[1..]).arg(&node));
            let mounted = Mounted::new(&node, &at);
            for file in 0..synced {
                let path = mounted.0.join(format!("r{round}-{file}"));
                let found =
                    fs::read(&path).unwrap_or_else(|error| panic!("round {round}: {}: {error}", path.display()));
                assert!(found == content(round, file), "round {round}: file {file} was fsynced and is not whole");
                fs::remove_file(path).expect("removed");
            }
            assert_equal(mounted.0);
            drop(mounted);
            let stat = cached.stat();
            assert_eq!((&stat["bytes"]["lost"], &stat["ssds"][1]["state"]), (&0.into(), &"failed".into()), "{stat}");
            assert_eq!(json(&["cache", "online", &cached.pool, self.name, "1"])["state"], "online");
            cached.assert_sound();
        }
        let said = refused(ferrite().args(["pool", "create"]).arg(self.node(&cached)), 1);
        assert!(said.contains("a pool is a regular file"), "{said}");
        cached.server().interrupt();
    }

    fn node(&self, cached: &CachedDisk) -> std::path::PathBuf {
        cached.server.as_ref().expect("it serves").node(self.name)
    }

    /// Writes files while an SSD fails, and kills the server after `delay`. Starts the next one and returns the number of
    /// files that were synced before.
    fn killed_at(&self, cached: &mut CachedDisk, round: u64, delay: Duration) -> u64 {
        let at = cached.path("mnt");
        let mounted = Mounted::new(&self.node(cached), &at);
        let (stop, synced) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_files(mounted.0, round, &stop, &synced));
            while synced.load(Ordering::Relaxed) < 3 && !writer.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // The failure is found when LEBs are written.
            cached.fault("s1", "error@from=0");
            fs::write(mounted.0.join("big"), vec![round as u8; 16 << 20]).expect("written");
            run(client("sync").arg("-f").arg(mounted.0));
            cached.await_stat("it has failed", |stat| stat["ssds"][1]["state"] == "failed");
            std::thread::sleep(delay);
            cached.server().kill();
            stop.store(true, Ordering::Relaxed);
            cached.start_with(&[]);
            writer.join().expect("the writer ends");
        });
        synced.load(Ordering::Relaxed)
    }
}

#[test]
fn kills_under_ext4_on_a_cached_disk_lose_no_fsynced_file() {
    EXT4.live(kill_round_count().div_ceil(5));
}

#[test]
fn kills_under_xfs_on_a_cached_disk_lose_no_fsynced_file() {
    XFS.live(kill_round_count().div_ceil(5));
}
