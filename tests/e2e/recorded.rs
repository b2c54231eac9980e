//! Recorded programs, as a command.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::programs::{client, ferrite};
use crate::server::{folder, json as told, run, signal, wait};

/// Returns true if this machine cannot record programs, and prints the reason.
fn is_missing() -> bool {
    let is_missing = !Path::new("/usr/bin/qemu-x86_64").exists();
    if is_missing {
        println!("skipped: qemu-user is not installed");
    }
    is_missing
}

/// The command simulates a program while it runs, and the saved recording gives the same figures again.
#[test]
fn a_recorded_program_is_simulated_and_kept() {
    if is_missing() {
        return;
    }
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (numbers, kept) = (path("numbers"), path("kept"));
    let lines: String = (0..5000_u32).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761))).collect();
    fs::write(&numbers, lines).expect("written");
    let live =
        run(ferrite().args(["sim", "llc", "--json", "--llc", "64K:16", "--save", &kept, "sort", "-n", &numbers]));
    let live: Value = serde_json::from_str(&live).expect("JSON");
    assert!(live["accesses"].as_u64() > Some(1_000_000), "{live}");
    let again = told(&["sim", "llc", "--llc", "64K:16", "--filtered", "--trace", &kept]);
    assert_eq!((&live["policies"], &live["bound"]), (&again["policies"], &again["bound"]));
}

/// A partial recording gives the figures of that part, and the command fails. If a signal ends the program, the status
/// follows the convention of shells.
#[test]
fn a_program_that_becomes_another_or_is_killed_is_told() {
    if is_missing() {
        return;
    }
    for (script, what, status) in [
        ("exec sort /dev/null", "became another program (exec), and what it did then is missing", 1),
        ("kill -9 $$", "did last is missing", 137),
    ] {
        let output = ferrite().args(["sim", "llc", "--json", "--policy", "lru", "sh", "-c", script]).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{script}: {said}");
        assert!(said.contains(what), "{script}: {said}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("the figures of what was seen");
        assert_eq!((&report["policies"][0]["policy"], &report["stopped"]), (&json!("lru"), &json!("lost")), "{script}");
    }
}

/// The program's output never mixes with the figures. With --output, it appears where the program writes it.
#[test]
fn what_a_program_prints_does_not_mix_with_the_figures() {
    if is_missing() {
        return;
    }
    let folder = folder(true);
    let to = folder.path().join("figures").display().to_string();
    let script = "echo hello; echo trouble >&2";
    let ran = |words: &[&str]| {
        let mut command = ferrite();
        command.args(["sim", "llc", "--json", "--policy", "lru"]).args(words).args(["sh", "-c", script]);
        let output = command.output().expect("it runs");
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success() && stderr.contains("trouble\n"), "{stderr}");
        (stdout, stderr)
    };
    let (stdout, stderr) = ran(&[]);
    assert!(serde_json::from_str::<Value>(&stdout).is_ok() && stderr.contains("hello\n"), "{stdout}{stderr}");
    let (stdout, stderr) = ran(&["--output", &to]);
    assert_eq!(stdout, "hello\n", "{stderr}");
    let report: Value = serde_json::from_slice(&fs::read(&to).expect("figures")).expect("JSON");
    assert_eq!(report["policies"][0]["policy"], json!("lru"));
}

/// The command prints the figures, and its status shows a script that the program failed.
#[test]
fn the_status_of_a_program_that_fails_is_passed_on() {
    if is_missing() {
        return;
    }
    let output = ferrite().args(["sim", "llc", "--json", "--policy", "lru", "sh", "-c", "exit 3"]).output();
    let output = output.expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("figures");
    assert_eq!((output.status.code(), report.get("stopped")), (Some(3), None));
    assert!(report["accesses"].as_u64() > Some(1000), "{report}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("ended with exit status: 3"));
}

/// The figures omit child processes of the program, and a message says so.
#[test]
fn a_program_that_starts_others_is_told() {
    if is_missing() {
        return;
    }
    for (script, is_told) in [(":", false), ("(:); :", true)] {
        let output = ferrite().args(["sim", "llc", "--policy", "lru", "sh", "-c", script]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {said}");
        let told = said.contains("started other processes, which were not recorded: record what does the work");
        assert_eq!(told, is_told, "{script}: {said}");
    }
}

/// Ctrl-C also reaches the program, which exits before the recorder can stop it. The recorder does not report it as
/// lost.
#[test]
fn a_program_that_ctrl_c_ends_first_is_interrupted() {
    if is_missing() {
        return;
    }
    let mut command = ferrite();
    command.args(["sim", "llc", "--json", "--policy", "lru", "perl", "-e", "print STDERR qq(up\n); sleep 100"]);
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while line.trim_end() != "up" {
        line.clear();
        assert_ne!(said.read_line(&mut line).expect("text"), 0, "it says that it runs");
    }
    // The signal goes to the whole process group, like a terminal's.
    run(Command::new("kill").args(["-INT", "--"]).arg(format!("-{}", child.id())));
    assert_eq!(wait(&mut child, Duration::from_secs(20)), Some(1));
    let (report, said) = (std::io::read_to_string(child.stdout.take().expect("piped")), std::io::read_to_string(said));
    let (report, said) = (report.expect("text"), said.expect("text"));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["stopped"], json!("interrupted"), "{said}");
    assert!(said.contains("interrupted: this is what was known") && !said.contains("missing"), "{said}");
}

/// Runs three threads that miss in every first-level cache, without end.
const MISSES: &str = r"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *arg) {
    volatile char *at = malloc(1 << 20);
    for (;;) for (int i = 0; i < 1 << 20; i += 64) at[i]++;
    return arg;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) pthread_create(&thread, 0, work, 0);
    work(0);
}
";

/// A program with several threads ends with its recorder, too. Its threads wait for one another when the buffer of
/// accesses is full.
#[test]
fn a_program_ends_with_who_records_it() {
    if is_missing() {
        return;
    }
    let folder = folder(true);
    let (source, misses) = (folder.path().join("misses.c"), folder.path().join("misses"));
    fs::write(&source, MISSES).expect("written");
    run(client("gcc").args(["-O1", "-pthread", "-o"]).args([&misses, &source]));
    let mut command = ferrite();
    command.args(["sim", "llc", "--policy", "lru"]).arg(&misses).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let threads = |process: &str| fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    let until = Instant::now() + Duration::from_secs(30);
    let program = loop {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let program = fs::read_to_string(children).unwrap_or_default().trim().to_owned();
        // The program has three threads of its own, and QEMU has one.
        if !program.is_empty() && threads(&program) >= 4 {
            break program;
        }
        assert!(Instant::now() < until, "it works with several threads");
        std::thread::sleep(Duration::from_millis(10));
    };
    std::thread::sleep(Duration::from_millis(300));
    signal(child.id(), "KILL");
    wait(&mut child, Duration::from_secs(20));
    let stat = || fs::read_to_string(format!("/proc/{program}/stat")).ok();
    let has_ended = || stat().is_none_or(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')));
    let until = Instant::now() + Duration::from_secs(20);
    while !has_ended() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let is_left = !has_ended();
    if is_left {
        run(Command::new("kill").args(["-KILL", &program]));
    }
    assert!(!is_left, "nobody reads any more");
}
