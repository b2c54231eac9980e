//! Stress tests for file systems, on the mount, with the kernel's write-back cache and without.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::direct::run_directly;
use crate::kill::number;
use crate::mount::{Place, start, used_bytes};
use crate::programs::client;
use crate::server::{assert_sound, json, run};

/// The stressors, which check their own results (`--verify`). Without `fanotify`: it marks every mount of the machine, so
/// it waits for the stopped servers of other tests, and they for it.
const STRESSORS: &str = "access aiol chmod chown dentry dir dirdeep dirmany fallocate filename flock fpunch fsize fstat \
    getdent handle hdd inotify iomix lease link locka mknod msync rename revio seek symlink sync-file touch utime xattr";

/// Returns a command that runs all stressors at once for some seconds.
fn stressors(at: &Path) -> Command {
    let seconds = 6 * number("FERRITE_ROUNDS", 1);
    let mut program = client("stress-ng");
    program.args(["--verify", "--timeout", &seconds.to_string(), "--temp-path"]).arg(at);
    for bytes in ["fallocate", "hdd", "iomix", "sync-file"] {
        program.args([format!("--{bytes}-bytes"), "8M".into()]);
    }
    for name in STRESSORS.split_whitespace() {
        program.args([format!("--{name}"), "1".into()]);
    }
    program
}

/// Runs a program, directly or through the mount, and returns its output.
type Runs = fn(&mut Command) -> String;

fn postmark(at: &Path, folder: &Path, runs: Runs) {
    let transactions = 2000 * number("FERRITE_ROUNDS", 1);
    let load = folder.join("postmark");
    let text = format!(
        "set location {}\nset number 300\nset transactions {transactions}\nset size 500 60000\nrun\nquit\n",
        at.display()
    );
    std::fs::write(&load, text).expect("written");
    let message = runs(client("postmark").arg(load));
    assert!(message.contains(&format!("{transactions} transactions")) || message.contains("deleted ("), "{message}");
    assert!(!message.contains("Error"), "{message}");
}

fn dbench(at: &Path, runs: Runs) {
    let seconds = number("FERRITE_ROUNDS", 1).clamp(1, 600).to_string();
    let message = runs(
        client("dbench").args(["-t", &seconds, "-c", "/usr/share/dbench/client.txt", "-x", "-D"]).arg(at).arg("2"),
    );
    assert!(message.contains("Throughput"), "{message}");
}

/// Each thread has its own folder, because the threads sometimes choose the same names.
fn fs_mark(at: &Path, runs: Runs) {
    let files = (500 * number("FERRITE_ROUNDS", 1)).to_string();
    let folders = ["a", "b"].map(|name| at.join(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).expect("made"));
    let mut program = client("fs_mark");
    program.current_dir(at).args(["-n", &files, "-s", "16384", "-S", "1", "-D", "10", "-t", "2"]);
    let message = runs(folders.iter().fold(&mut program, |program, folder| program.arg("-d").arg(folder)));
    assert!(message.contains("Files/sec"), "{message}");
}

/// Runs all loads. Afterwards, the free space and inodes are the same as before.
fn load(more: &[&str]) {
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    let server = start(&pool, &at, &[&["--size", "768M", "--disk", "d=8M"][..], more].concat());
    let before = used_bytes(&pool);
    run(&mut stressors(&at));
    postmark(&at, folder.path(), run);
    dbench(&at, run);
    fs_mark(&at, run);
    for entry in std::fs::read_dir(&at).expect("listed").flatten() {
        run(client("rm").arg("-rf").arg(entry.path()));
    }
    let is_back = || {
        let stat = json(&["fs", "stat", pool.to_str().expect("text"), "files"]);
        used_bytes(&pool) <= before + (4 << 20) && stat["space"]["inodes"] == 1
    };
    let freed = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        is_back()
    });
    assert!(freed, "{before} bytes before, {} after all was removed", used_bytes(&pool));
    server.interrupt();
    assert_sound(&pool);
}

#[test]
fn stressors_and_file_servers_find_nothing() {
    load(&[]);
}

#[test]
fn stressors_and_file_servers_find_nothing_under_the_write_back_cache() {
    load(&["--cached"]);
}

#[test]
fn stressors_and_file_servers_find_nothing_directly() {
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    let server = start(&pool, &at, &["--size", "768M", "--disk", "d=8M"]);
    run_directly(&mut stressors(&at));
    postmark(&at, folder.path(), run_directly);
    dbench(&at, run_directly);
    fs_mark(&at, run_directly);
    let mut program = client("fio");
    program.args([
        "--name=verified",
        "--rw=randrw",
        "--bs=4k",
        "--size=16M",
        "--verify=crc32c",
        "--verify_state_save=0",
        "--ioengine=psync",
    ]);
    run_directly(program.arg("--numjobs=2").arg("--directory").arg(&at));
    server.interrupt();
    assert_sound(&pool);
}
