//! The table of loads, and those that need nothing but a shell.

use std::fs;

use super::*;

fn kit(place: &Path) -> LoadKit {
    LoadKit::new(place, AppSize { source_bytes: 64 << 10, ..AppSize::of(Length::Smoke) }).expect("a folder")
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .expect("there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn every_load_has_a_name_of_its_own_and_says_what_it_needs() {
    let mut names: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["clamav", "devel", "glimpseindex", "sfs", "tar", "tpcc", "tpch", "untar"]);
    assert!(LOADS.iter().all(|load| !load.needs.is_empty()));
}

/// A run that leaves something makes the next one fail, or a shorter one.
#[test]
fn a_load_can_be_run_again_after_its_reset() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let kit = kit(place.path());
    for load in LOADS.iter().filter(|load| ["untar", "tar", "devel", "sfs", "glimpseindex"].contains(&load.name)) {
        if !load.is_available(&kit).expect("it can be asked") {
            println!("{} was not tested: it needs {}", load.name, load.needs);
            continue;
        }
        let home = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        load.prepare(&kit, home.path()).expect("prepared");
        let prepared = names(home.path());
        for run in 0..2 {
            let seconds = load.run(&kit, home.path()).unwrap_or_else(|why| panic!("{}, run {run}: {why}", load.name));
            assert!(seconds > 0.0);
            load.reset(home.path()).expect("reset");
            assert_eq!(names(home.path()), prepared, "{}, run {run}", load.name);
        }
    }
}

#[test]
fn a_script_that_fails_fails_the_load() {
    let home = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let untar = &LOADS[0];
    untar.run(&kit(place.path()), home.path()).expect_err("there is no archive");
}

#[test]
fn larger_runs_have_larger_disks() {
    let [full, quick, smoke] =
        [Length::Full, Length::Quick, Length::Smoke].map(|length| AppSize::of(length).disk_bytes());
    assert!(full > quick && quick > smoke, "{full} {quick} {smoke}");
    assert!([full, quick, smoke].iter().all(|bytes| bytes % (2 << 20) == 0));
    assert!(full >= 5 * AppSize::of(Length::Full).source_bytes, "a tree, its copy, and two archives");
}

#[test]
fn the_rate_of_pgbench_is_its_tps() {
    let output =
        "transaction type: <builtin: simple update>\nlatency average = 1.2 ms\ntps = 832.125 (without initial)\n";
    assert_eq!(transactions_per_s(output), Some(832.125));
    assert_eq!(transactions_per_s("tps = none\n"), None);
    assert_eq!(transactions_per_s(""), None);
}

#[test]
fn signatures_are_clamavs_and_differ() {
    let text = clamav::signatures();
    let lines: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!(lines.len(), 500);
    for line in lines {
        let fields: Vec<&str> = line.split(':').collect();
        assert!(fields.len() == 4 && fields[0].starts_with("Ferrite.Test.") && fields[1..3] == ["0", "*"], "{line}");
        assert!(fields[3].len() == 40 && fields[3].chars().all(|digit| digit.is_ascii_hexdigit()), "{line}");
    }
}

#[test]
fn postmark_is_told_where_and_how_much() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("orders");
    let command = postmark::command(&path, Path::new("/mnt/load"), 20, 40, "set subdirectories 2\n").expect("written");
    assert_eq!(command.get_args().collect::<Vec<_>>(), [path.as_os_str()]);
    assert_eq!(
        fs::read_to_string(path).expect("written"),
        "set location /mnt/load\nset number 20\nset transactions 40\nset subdirectories 2\nset size 512 32768\nset seed 42\nrun\nquit\n"
    );
}
