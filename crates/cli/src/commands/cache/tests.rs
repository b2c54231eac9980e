use std::path::PathBuf;

use ferrite_cache::{CacheMode, CacheState, RateChoice, SettingsChange};
use ferrite_owner::{SurvivalAnswer, SurvivalReport, SurvivalState};

use super::create::{member, named_disk};
use super::shown::{show_line, show_survival};
use super::*;
use crate::{Arguments, Command};

/// Parses the command line behind `ferrite cache`.
fn parsed(line: &str) -> Result<Cache, String> {
    let words = ["ferrite", "cache"].into_iter().chain(line.split_whitespace());
    let arguments = <Arguments as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string())?;
    match arguments.command {
        Command::Cache(cache) => Ok(cache),
        _ => panic!("another command"),
    }
}

fn change(line: &str) -> SettingsChange {
    match parsed(&format!("set p c {line}")) {
        Ok(Cache::Set(set)) => set.settings.change(),
        Ok(_) => panic!("another command"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn each_setting_has_an_option_and_its_units() {
    let none = SettingsChange::default();
    let rows = [
        ("--mode read-only", SettingsChange { mode: Some(CacheMode::ReadOnly), ..none }),
        ("--bypass never", SettingsChange { bypass_bytes: Some(0), ..none }),
        ("--bypass 1M", SettingsChange { bypass_bytes: Some(1 << 20), ..none }),
        ("--dirty-max 2.5%", SettingsChange { dirty_max_permille: Some(25), ..none }),
        ("--dirty-age 0", SettingsChange { dirty_age_ns: Some(0), ..none }),
        ("--destage-rate auto", SettingsChange { destage_rate: Some(RateChoice::Auto), ..none }),
        ("--destage-rate 0", SettingsChange { destage_rate: Some(RateChoice::Pages(0)), ..none }),
        ("--ssd-timeout 500ms", SettingsChange { ssd_timeout_ns: Some(500_000_000), ..none }),
        ("--grace 2m", SettingsChange { grace_ns: Some(120_000_000_000), ..none }),
        ("--discard off", SettingsChange { discard: Some(false), ..none }),
    ];
    for (line, expected) in rows {
        assert_eq!(change(line), expected, "{line}");
    }
    assert!(matches!(change("--copies all").copies, Some(copies) if word(&copies) == "all"));
    assert!(matches!(change("--policy fifo").policy, Some(policy) if word(&policy) == "fifo"));
    for line in
        ["--mode fast", "--bypass x", "--dirty-max 10", "--dirty-age 10", "--destage-rate -1", "--discard maybe"]
    {
        assert!(parsed(&format!("set p c {line}")).is_err(), "{line}");
    }
}

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).expect("JSON").as_str().expect("a word").into()
}

#[test]
fn a_change_of_nothing_and_a_cache_without_parts_are_usage_errors() {
    let Ok(Cache::Set(set)) = parsed("set p c") else { panic!("understood") };
    assert!(set.settings.change_of_some().expect_err("nothing is named").text().contains("--mode"));
    for line in ["create p c --disk d", "create p c --ssd s", "create p c --disk d --ssd s --stamp middle"] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

/// The owner of the pool may run in another folder.
#[test]
fn members_are_stored_with_absolute_paths() {
    let here = std::env::current_dir().expect("a folder");
    let ssd = member("ssd-sata:s0").expect("a file");
    assert_eq!((ssd.address, ssd.path), (format!("ssd-sata:{}", here.join("s0").display()), here.join("s0")));
    let uri = member("nbd+unix:///c?socket=/run/x").expect("an export");
    assert_eq!((uri.address.as_str(), uri.path), ("nbd+unix:///c?socket=/run/x", PathBuf::new()));
    assert!(member("nbd+unix:///c?socket=x").expect_err("relative").contains("absolute path"));
    assert!(member("").is_err());
}

#[test]
fn a_disk_may_have_a_name_before_its_address() {
    let rows = [
        ("db=hdd-7200:/d", Some("db"), "hdd-7200:/d"),
        ("/a=b", None, "/a=b"),
        ("nbd+unix:///?socket=/s", None, "nbd+unix:///?socket=/s"),
        ("db=nbd+unix:///?socket=/s", Some("db"), "nbd+unix:///?socket=/s"),
        ("fault:error@op=write:/d", None, "fault:error@op=write:/d"),
    ];
    for (text, name, address) in rows {
        let (export, at) = named_disk(text).expect(text);
        assert_eq!((export.as_deref(), at.address.as_str()), (name, address), "{text}");
    }
    assert!(named_disk("=/d").is_err(), "an empty name");
}

/// The words of each command, in the order in which people type them.
#[test]
fn members_are_named_by_numbers_and_names() {
    for line in [
        "add-ssd p c /s --lose 1M",
        "remove-ssd p c 3 --cancel",
        "remove-ssd p c 3 --lose 4K",
        "online p c 0",
        "add-disk p c db=/d --stamp none",
        "remove-disk p c db",
        "remove p c --lose 4096",
        "forget p c --clean",
        "drop p c",
    ] {
        assert!(parsed(line).is_ok(), "{line}: {:?}", parsed(line).err());
    }
    for line in [
        "remove-ssd p c x",
        "remove-ssd p c 3 --cancel --lose 1",
        "online p c 300",
        "forget p c --clean --lose 1",
        "add-disk c",
        "remove",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
    let Ok(Cache::Forget(forget)) = parsed("forget p c") else { panic!("understood") };
    assert!(forget.run().expect_err("nothing is said").text().contains("--clean"));
    let Ok(Cache::AddDisk(add)) = parsed("add-disk p c /d") else { panic!("understood") };
    assert!(add.run().expect_err("no name").text().contains("NAME=DISK"));
}

fn report(state: CacheState) -> CacheReport {
    CacheReport {
        name: "c".into(),
        state,
        why: Some("it is broken".into()),
        mode: CacheMode::WriteBack,
        ssds: 2,
        ssds_online: None,
        dirty_bytes: None,
        disks: vec!["c".into()],
        refused_disks: vec!["c: it is away".into()],
        space_bytes: 0,
        recovery: None,
    }
}

#[test]
fn the_line_of_a_cache_says_what_is_wrong() {
    let open = CacheReport { ssds_online: Some(1), dirty_bytes: Some(4096), ..report(CacheState::Open) };
    let line = show_line(&open);
    assert!(line.contains("write-back, 1 of 2 SSDs online"), "{line}");
    assert!(line.contains("4 KiB dirty") && line.contains("not served: c: it is away"), "{line}");
    assert!(show_line(&report(CacheState::Closed)).contains("not open"));
    assert!(show_line(&report(CacheState::Failed)).contains("failed: it is broken"));
    assert!(show_line(&report(CacheState::Incomplete)).contains("`ferrite cache remove`"));
}

/// A user who is told that data survives what it does not survive loses it.
#[test]
fn what_dirty_data_does_not_survive_is_said_with_the_reason() {
    let answer = |state, why: &str| SurvivalAnswer { state, why: why.into() };
    let survives = SurvivalReport {
        process_crash: answer(SurvivalState::Yes, ""),
        kernel_crash: answer(SurvivalState::NotKnown, "the SSDs: a server decides"),
        power_loss: answer(SurvivalState::No, "the SSDs: tmpfs"),
        trusted: false,
        when_flushed: true,
    };
    let line = show_survival(&survives);
    assert!(line.contains("a power failure: NO (the SSDs: tmpfs)") && line.contains("not known (the SSDs: a server"));
    assert!(line.trim_end().ends_with("when flushed"), "{line}");
}
