//! A killed server (AT2, AT4): it dies at once at any point, and the next server clears its leftovers.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ferrite_devnode::{Attached, AttachedFile, FileOptions, FileOwner, Options, clear_stale};

use crate::ram::RamDisk;
use crate::stand::{Aligned, Stand, direct, run, text};

const MODE: &str = "FERRITE_ATTACH_SERVE";

/// Helper process that the other tests kill, not a test by itself. It attaches a disk and serves it, or attaches and
/// detaches in an endless loop, as a node or as a file.
#[test]
fn serve_until_killed() {
    let Ok(mode) = env::var(MODE) else { return };
    let directory = PathBuf::from(env::var("FERRITE_ATTACH_DIRECTORY").unwrap());
    let options = || Options { link: directory.join("dev/victim"), ..Options::new("victim", directory.join("places")) };
    let disk = Arc::new(RamDisk::new(64 << 20));
    println!("ready");
    loop {
        if mode.starts_with("file") {
            let (owner, places) = (FileOwner { uid: 0, gid: 0 }, directory.join("places"));
            let options = FileOptions { name: "g".into(), directory: places, path: None, owner, threads: 2 };
            let mut attached = AttachedFile::new(disk.clone(), &options).unwrap();
            if mode == "file" {
                println!("device {}", attached.path().display());
                thread::park();
            }
            attached.detach().unwrap();
            continue;
        }
        let mut attached = Attached::new(disk.clone(), options()).unwrap();
        if mode == "once" {
            println!("device {}", attached.device().display());
            thread::park();
        }
        attached.detach().unwrap();
    }
}

pub struct Victim {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Victim {
    pub fn start(stand: &Stand, mode: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "killed::serve_until_killed", "--nocapture"])
            .env(MODE, mode)
            .env("FERRITE_ATTACH_DIRECTORY", stand.directory.path().canonicalize().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.by_ref().map(Result::unwrap).find(|line| line.ends_with("ready")).expect("the victim started");
        Self { child, lines }
    }

    pub fn device(&mut self) -> PathBuf {
        let mut message = self.lines.by_ref().map(|line| line.unwrap());
        message.find_map(|line| line.strip_prefix("device ").map(PathBuf::from)).expect("the victim attached")
    }

    /// Returns once the server is dead. A server that waits for its own mount never dies.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        for _ in 0..3000 {
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("process {} cannot be killed: abort it under /sys/fs/fuse/connections", self.child.id());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.try_wait();
    }
}

/// AT4: the server is killed during writes to a file system on the node. Then no mount, no loop device, no directory
/// and no link remains. The disk beside it is still served, and a second clearing finds nothing.
#[test]
fn what_a_killed_server_left_is_cleared() {
    let Some(stand) = Stand::new() else { return };
    let mut beside = stand.attach("beside", &Arc::new(RamDisk::new(16 << 20)));
    let mut victim = Victim::start(&stand, "once");
    let device = victim.device();
    run("mkfs.ext4", &["-q", &text(&device)]);
    let mounted = stand.mount(&device, "ext4");
    let point = mounted.point.clone();
    let writer = thread::spawn(move || {
        (0_u64..).all(|count| {
            File::create(point.join((count % 50).to_string()))
                .is_ok_and(|mut file| file.write_all(&[1; 100_000]).is_ok() && file.sync_all().is_ok())
        })
    });
    while fs::read_dir(&mounted.point).unwrap().count() < 10 {
        thread::yield_now();
    }
    victim.kill();
    let message = clear_stale(&stand.places()).join("\n");
    assert!(!writer.join().unwrap(), "the writer was not told");
    for word in [format!("unmounted {}", mounted.point.display()), format!("detached the dead {}", device.display())] {
        assert!(message.contains(&word), "nothing about `{word}` in:\n{message}");
    }
    assert_eq!(clear_stale(&stand.places()), Vec::<String>::new(), "cleared once already");
    direct(beside.link()).write_all_at(Aligned::filled(4096, 3).get(), 0).expect("the disk beside is served on");
    beside.detach().unwrap();
    stand.assert_clean();
}

/// The next server of the name clears the leftovers, even while a program has a file of the dead file system open.
#[test]
fn the_next_server_takes_over() {
    let Some(stand) = Stand::new() else { return };
    let mut victim = Victim::start(&stand, "once");
    let device = victim.device();
    run("mkfs.ext4", &["-q", &text(&device)]);
    let mounted = stand.mount(&device, "ext4");
    let open = File::create(mounted.point.join("open")).unwrap();
    victim.kill();
    let mut next = stand.attach("victim", &Arc::new(RamDisk::new(16 << 20)));
    assert!(next.notes().iter().any(|note| note.contains("goes when let go")), "{:?}", next.notes());
    direct(next.link()).write_all_at(Aligned::filled(4096, 3).get(), 0).unwrap();
    drop(open);
    next.detach().unwrap();
    stand.assert_clean();
}

/// AT2: killed at any point of attaching and detaching, the process ends, and the leftovers are cleared.
#[test]
fn killed_at_any_point_it_dies_and_is_cleared() {
    let Some(stand) = Stand::new() else { return };
    let rounds = env::var("FERRITE_ROUNDS").map_or(12, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let victim = Victim::start(&stand, "cycle");
        // Any wait is suitable; odd multiples spread the kills over the cycle, which takes about 30 ms.
        thread::sleep(Duration::from_micros(round * 7919 % 60_000));
        victim.kill();
        let message = clear_stale(&stand.places()).join("\n");
        assert!(!message.contains("could not"), "{message}");
        stand.assert_clean();
    }
}
