//! Tests of the command line and of the written files.

use clap::Parser;
use ferrite_bench::{MachineState, ReportRow};

use super::*;
use crate::outcome::exit_code;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    bench: Bench,
}

fn parse(words: &[&str]) -> Result<Bench, clap::Error> {
    CommandLine::try_parse_from(["bench"].iter().chain(words)).map(|line| line.bench)
}

#[track_caller]
fn parsed(words: &[&str]) -> Bench {
    parse(words).unwrap_or_else(|why| panic!("{words:?}: {why}"))
}

#[track_caller]
fn refused(words: &[&str]) -> String {
    let error = parse(words).err().expect("it is wrong usage");
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

fn report() -> BenchReport {
    let row = ReportRow {
        case: "read, 4K".into(),
        subject: "ferrite".into(),
        unit: "MB/s",
        value: 2.0,
        beside: "ferrite".into(),
        ratio: 1.0,
        low: 1.0,
        high: 1.0,
    };
    let (machine, verdict) = (MachineState::here(), "as fast as ferrite".into());
    BenchReport { experiment: "zones", machine, rows: vec![row], paper: vec![], verdict, charts: vec![] }
}

#[test]
fn without_options_files_are_written_here_and_pools_lie_in_memory() {
    let bench = parsed(&["zones"]);
    assert_eq!(bench.name.as_deref(), Some("zones"));
    assert!(!bench.list && !bench.quick && bench.json.is_none() && bench.threads.is_none() && bench.only.is_none());
    assert_eq!((bench.output.as_path(), bench.place.as_path()), (Path::new("."), Path::new("/dev/shm")));
    assert_eq!(bench.files("zones"), ["./zones.json", "./zones.csv", "./zones.svg"].map(PathBuf::from));
}

#[test]
fn json_goes_to_its_file_or_to_standard_output() {
    let json = |words: &[&str]| {
        let bench = parsed(words);
        (bench.prints_json(), bench.files("zones")[0].clone())
    };
    assert_eq!(json(&["zones", "--json", "out.json"]), (false, "out.json".into()));
    assert_eq!(json(&["zones", "--json", "out.json", "--output", "results"]), (false, "out.json".into()));
    for printed in [&["zones", "--json"][..], &["zones", "--json", "-"], &["zones", "--json", "--quick"]] {
        assert_eq!(json(printed), (true, "./zones.json".into()), "{printed:?}");
    }
}

#[test]
fn csv_and_svg_go_to_the_folder() {
    let bench = parsed(&["zones", "--output", "results"]);
    assert_eq!(
        bench.files("zones"),
        ["results/zones.json", "results/zones.csv", "results/zones.svg"].map(PathBuf::from)
    );
}

#[test]
fn an_experiment_is_required_unless_they_are_listed() {
    assert!(refused(&[]).contains("required"));
    assert!(parsed(&["--list"]).list);
    assert!(refused(&["zones", "protection"]).contains("protection"), "one at a time");
}

#[test]
fn threads_are_one_at_least() {
    for words in [["zones", "--threads", "0"], ["zones", "--threads", "65536"]] {
        assert!(refused(&words).contains("1..=65535"), "{words:?}");
    }
    assert_eq!(parsed(&["zones", "--threads", "7"]).threads, Some(7));
}

#[test]
fn the_list_has_a_line_for_each_experiment() {
    let list = list();
    assert_eq!(list.lines().count(), EXPERIMENTS.len());
    assert!(list.contains("\nwrite-schemes "), "{list}");
    assert!(list.starts_with("protection   "), "names are a column: {list}");
}

#[test]
fn an_experiment_that_there_is_not_is_wrong_usage_and_makes_no_folder() {
    let place = tempfile::tempdir().expect("a folder");
    let output = place.path().join("results");
    let outcome = parsed(&["zone", "--output", &output.display().to_string()]).run();
    let Err(Failure::Usage(why)) = &outcome else { panic!("{outcome:?}") };
    assert!(
        why.starts_with("there is no experiment \"zone\"; the experiments are:\n") && why.contains("\nzones "),
        "{why}"
    );
    assert!(!output.exists());
    assert_eq!(format!("{:?}", exit_code(outcome)), format!("{:?}", std::process::ExitCode::from(2)));
}

#[test]
fn folders_are_made_before_anything_is_measured() {
    let place = tempfile::tempdir().expect("a folder");
    let output = place.path().join("a/b");
    let bench = parsed(&["zones", "--output", &output.display().to_string()]);
    assert_eq!(bench.make_output().expect("made"), [output.as_path(), &place.path().join("a")], "the innermost first");
    assert!(output.is_dir());
    assert!(bench.make_output().expect("there").is_empty(), "a folder that was there is not removed afterwards");
    fs::write(place.path().join("file"), "").expect("written");
    let bench = parsed(&["zones", "--output", &place.path().join("file/b").display().to_string()]);
    let Err(Failure::Failed(why)) = bench.make_output() else { panic!("a file is no folder") };
    assert!(why.starts_with("making ") && why.contains("file/b: "), "{why}");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_and_not_made() {
    let place = tempfile::tempdir().expect("a folder");
    let refused = |path: &Path| match ensure_writable(path) {
        Err(Failure::Failed(why)) => why,
        other => panic!("{other:?}"),
    };
    ensure_writable(&place.path().join("new.json")).expect("it can be made");
    assert!(!place.path().join("new.json").exists());
    let why = refused(place.path());
    assert!(why.contains("Is a directory") && why.ends_with("--output must name a folder for files"), "{why}");
    assert!(refused(&place.path().join("none/new.json")).contains("No such file"), "the folder is missing");
    fs::write(place.path().join("old.json"), "old").expect("written");
    ensure_writable(&place.path().join("old.json")).expect("it is written over");
    assert_eq!(fs::read_to_string(place.path().join("old.json")).expect("there"), "old", "but not yet");
}

#[test]
fn a_report_is_three_files() {
    let place = tempfile::tempdir().expect("a folder");
    let bench = parsed(&["zones", "--output", &place.path().display().to_string()]);
    bench.write(&report()).expect("written");
    let read = |name: &str| fs::read_to_string(place.path().join(name)).expect("there");
    let json: serde_json::Value = serde_json::from_str(&read("zones.json")).expect("JSON");
    assert_eq!((&json["experiment"], &json["rows"][0]["value"]), (&"zones".into(), &2.0.into()));
    assert_eq!(read("zones.csv").lines().nth(1), Some("\"read, 4K\",ferrite,MB/s,2.0000,ferrite,1.0000,1.0000,1.0000"));
    assert!(read("zones.svg").starts_with("<svg"));
}

/// If one of three files cannot be written, the other two still are, because the measurement took minutes.
#[test]
fn what_can_be_written_is_written() {
    let place = tempfile::tempdir().expect("a folder");
    fs::create_dir(place.path().join("zones.json")).expect("made");
    let bench = parsed(&["zones", "--output", &place.path().display().to_string()]);
    let outcome = bench.write(&report());
    let Err(Failure::Failed(why)) = &outcome else { panic!("{outcome:?}") };
    assert!(why.contains("zones.json"), "{why}");
    assert!(place.path().join("zones.csv").is_file() && place.path().join("zones.svg").is_file());
    assert_eq!(format!("{:?}", exit_code(outcome)), format!("{:?}", std::process::ExitCode::from(1)));
}
