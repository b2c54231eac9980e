//! A full disk of the host: under the database while its log is in a pool, and under the pool itself. No acknowledged
//! transaction is lost, SQLite reports that the disk is full, and work continues when there is room.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferrite_sqlite_log::GiveBackProgress;
use tempfile::TempDir;

use crate::Place;
use crate::given_back::{begin, finish};
use crate::shell::Shell;

/// A tmpfs, unmounted when dropped.
struct Disk(TempDir);

impl Disk {
    fn mount(size: &str) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        println!("skipped: only root may mount a tmpfs");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Fills the disk to the last page.
    fn fill(&self) {
        let mut filler = File::create(self.path("filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn uri(database: &Path, pool: &Path) -> String {
    format!("file:{}?vfs=ferrite&pool={}", database.display(), pool.display())
}

fn count(shell: &mut Shell) -> u64 {
    let sums = shell.ask("select count(*), coalesce(max(n), 0) from t; pragma integrity_check;");
    let (count, rest) = sums.split_once('|').unwrap();
    assert_eq!(rest, format!("{count}\nok"), "none is missing before the last");
    count.parse().unwrap()
}

/// Returns a transaction that adds row `number`, and writes all other rows again.
fn step(number: u64) -> String {
    format!(
        "insert or replace into t select n, randomblob(30000) from (select n from t union select {number}); \
         select max(n) from t;"
    )
}

/// Runs such transactions behind `known` until one is refused; returns the number of rows.
fn fill(shell: &mut Shell, known: u64) -> u64 {
    let is_done = |number: &u64| shell.ask(&step(*number)) == number.to_string();
    let done = (known + 1..known + 2000).take_while(is_done).count() as u64;
    assert!(done < 1999, "it is never full");
    known + done
}

/// Fills the disk, is killed, fills it again, and continues after `make_room`.
fn lives_through(mode: &str, uri: &str, database: &Path, fill_disk: &dyn Fn(), make_room: &dyn Fn()) {
    let mut shell = Shell::open(uri);
    shell.run(&format!("pragma journal_mode={mode}; create table t(n integer primary key, b);"));
    assert_eq!(shell.ask(&step(1)), "1");
    fill_disk();
    let known = fill(&mut shell, 1);
    assert_eq!(count(&mut shell), known, "{mode}");
    shell.kill();
    let mut shell = Shell::open(uri);
    shell.run("pragma cache_size=10;");
    assert_eq!(count(&mut shell), known, "{mode}, after a kill");
    let known = fill(&mut shell, known);
    println!("{mode}: {known} rows");
    let message = shell.end();
    assert!(message.contains("database or disk is full"), "{mode}: {message}");
    make_room();
    let mut shell = Shell::open(uri);
    assert_eq!(count(&mut shell), known, "{mode}, with room");
    // The pool may be full of pages that could not be written into the database.
    shell.run("pragma wal_checkpoint(truncate);");
    for number in known + 1..known + 4 {
        assert_eq!(shell.ask(&step(number)), number.to_string(), "{mode}, with room");
    }
    assert_eq!(shell.end(), "", "{mode}");
    assert_eq!(count(&mut Shell::plain(database)), known + 3, "{mode}, given back");
}

#[test]
fn a_full_disk_under_the_database_costs_no_transaction() {
    for mode in ["wal", "delete", "persist"] {
        let (Some(disk), place) = (Disk::mount("size=24m"), Place::of("/dev/shm", 16 << 20)) else { return };
        let database = disk.path("a.db");
        let uri = uri(&database, &place.path("pool"));
        lives_through(mode, &uri, &database, &|| disk.fill(), &|| disk.make_room());
    }
}

/// The pool's file is sparse, and its host has less space than the pool needs; tested by its owner, and beside one.
#[test]
fn a_full_disk_under_the_pool_costs_no_transaction() {
    for (mode, is_beside) in [("wal", false), ("wal", true), ("delete", false), ("delete", true)] {
        let Some(disk) = Disk::mount("size=48m") else { return };
        let place = Place::of(disk.0.path().to_str().unwrap(), 40 << 20);
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let database = folder.path().join("a.db");
        let mut owner = is_beside.then(|| Shell::open(&uri(&folder.path().join("other.db"), &place.path("pool"))));
        if let Some(owner) = &mut owner {
            owner.run("create table u(n); insert into u values(1);");
        }
        let uri = uri(&database, &place.path("pool"));
        lives_through(mode, &uri, &database, &|| disk.fill(), &|| disk.make_room());
        if let Some(mut owner) = owner {
            assert_eq!(owner.ask("insert into u values(2); select count(*) from u;"), "2");
            assert_eq!(owner.end(), "");
        }
    }
}

/// WF4: the target of a drain is full from some step on. The drain fails and leaves no files, and exactly one place has
/// the valid data. With room the drain is finished.
#[test]
fn wf4_a_draining_into_a_full_disk_leaves_one_truth() {
    for mode in ["wal", "delete"] {
        let mut refused = 0;
        for full_at in 0.. {
            let (Some(disk), place) = (Disk::mount("size=24m"), Place::new()) else { return };
            let database = disk.path("a.db");
            let uri = uri(&database, &place.path("pool"));
            let mut shell = Shell::open(&uri);
            shell.run(&format!("pragma journal_mode={mode}; pragma cache_size=2; create table t(n, b);"));
            shell.run("insert into t select value, randomblob(3000) from generate_series(1, 300);");
            shell.run("begin; update t set b = randomblob(2999);");
            shell.kill();
            let mut work = begin(&place, &database);
            let is_over = (0..full_at).any(|_| work.step().unwrap() == GiveBackProgress::Done);
            disk.fill();
            let done = std::iter::repeat_with(|| work.step())
                .find(|step| !matches!(step, Ok(GiveBackProgress::Copied(_) | GiveBackProgress::Stepped)));
            drop(work);
            if let Some(Err(error)) = &done {
                assert!(error.to_string().contains("No space left"), "{mode}, step {full_at}: {error}");
                assert!(!["a.db-wal.partial", "a.db-journal.partial"].iter().any(|name| disk.path(name).exists()));
                let message = Shell::open(&uri).ask("select count(*), min(length(b)) from t; pragma integrity_check;");
                assert_eq!(message, "300|3000\nok", "{mode}, step {full_at}");
                refused += 1;
            }
            disk.make_room();
            if !matches!(done, Some(Ok(_))) {
                finish(begin(&place, &database));
            }
            let message =
                Shell::plain(&database).ask("select count(*), min(length(b)) from t; pragma integrity_check;");
            assert_eq!(message, "300|3000\nok", "{mode}, step {full_at}");
            if is_over {
                break;
            }
        }
        assert!(refused > 0, "{mode}");
    }
}
