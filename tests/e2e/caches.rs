//! The simulated last-level cache as a command: traces, recorded programs and the printed report.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::programs::ferrite;
use crate::server::{folder, json as told, refused, run, signal, wait};

/// Returns the named figures of one policy in `report`.
fn figures(report: &Value, policy: &str, names: &[&str]) -> Value {
    let policies = report["policies"].as_array().expect("a list");
    let found = policies.iter().find(|one| one["policy"] == policy).expect("it was simulated");
    names.iter().map(|name| found[*name].clone()).collect()
}

const COUNTS: [&str; 6] = ["read_misses", "write_misses", "hits", "writebacks", "dirty_lines", "max_line_writes"];

/// The test computed these figures by hand for one set of two ways. The cache writes line 1 three times under LRU and
/// once under Protect-0.
#[test]
fn a_filtered_trace_gives_the_figures_worked_out() {
    let folder = folder(true);
    let trace = folder.path().join("trace");
    let words = [3_u64, 4, 6, 3, 4, 6, 3, 4];
    fs::write(&trace, words.map(u64::to_le_bytes).concat()).expect("written");
    let trace = trace.to_str().expect("text");
    let command = ["sim", "llc", "--filtered", "--format", "compact", "--llc", "128:2", "--trace", trace];
    let report = told(&[&command[..], &["--policy", "lru", "--policy", "protect-0"]].concat());
    assert_eq!(report["events"], 8);
    assert_eq!(figures(&report, "lru", &COUNTS), json!([5, 3, 0, 3, 1, 3]));
    assert_eq!(figures(&report, "protect-0", &COUNTS), json!([5, 1, 2, 1, 1, 1]));
    assert_eq!(figures(&report, "protect-0", &["lifetime_gain", "lifetime_gain_unlevelled"]), json!([3.0, 3.0]));
    assert_eq!(report["levelling"], "randomized-start-gap");
    let levelled = told(&[&command[..], &["--wear", "start-gap", "--policy", "protect-0"]].concat());
    assert_eq!(levelled["levelling"], "start-gap");
    let keys = ["lifetime_gain", "lifetime_gain_levelled", "lifetime_gain_unlevelled"];
    let gains = figures(&levelled, "protect-0", &keys);
    assert_eq!((&gains[0], &gains[2]), (&gains[1], &json!(3.0)));
    assert_eq!(report["bound"]["writebacks"], 1);
}

#[test]
fn every_form_of_the_same_accesses_gives_the_same_figures() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (lackey, din, compact) = (path("lackey"), path("din"), path("compact"));
    let address = |n: u32| n.wrapping_mul(2_654_435_761) >> 8 & !7;
    let text = |line: fn(bool, u32) -> String| (0..20_000).map(|n| line(n % 3 == 0, address(n))).collect::<String>();
    fs::write(&lackey, text(|write, at| format!(" {} {at:x},4\n", if write { 'S' } else { 'L' }))).expect("written");
    fs::write(&din, text(|write, at| format!("{} {at:x}\n", u8::from(write)))).expect("written");
    run(ferrite().args(["sim", "convert", &din, &compact, "--as", "compact"]));
    let figures = |trace: &str, form: &str| {
        let mut report = told(&["sim", "llc", "--llc", "64K:16", "--l1", "4K:2", "--trace", trace]);
        assert_eq!(report["form"], form);
        (report["trace"], report["form"]) = (Value::Null, Value::Null);
        report
    };
    assert_eq!(figures(&lackey, "lackey"), figures(&din, "din"));
    assert_eq!(figures(&lackey, "lackey"), figures(&compact, "compact"));
}

/// One compact form keeps a trace's program counters, and the other omits them.
#[test]
fn the_program_counter_comes_through_a_conversion() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (lackey, signed, plain) = (path("lackey"), path("signed"), path("plain"));
    let access = |n: u32| match n % 4 {
        0 => format!("I  {:x},4\n S {:x},8\n", 0x40_1000 + 4 * (n % 3), 0x100_0000 + n / 4 % 750 * 128),
        _ => format!("I  {:x},4\n L {:x},8\n", 0x40_2000 + 4 * (n % 5), 0x100_0040 + n * 128),
    };
    fs::write(&lackey, (0..240_000).map(access).collect::<String>()).expect("written");
    let converted =
        ferrite().args(["sim", "convert", &lackey, &signed, "--as", "compact-pc"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&converted.stderr).into_owned();
    assert!(said.ends_with(" accesses to lines, lackey to compact-pc\n"), "{said}");
    run(ferrite().args(["sim", "convert", &signed, &plain, "--as", "compact"]));
    let policies = |trace: &str, format: &[&str]| {
        let command = ["sim", "llc", "--llc", "64K:16", "--l1", "4K:2", "--policy", "lru", "--policy", "worth"];
        let report = told(&[&command[..], format, &["--trace", trace]].concat());
        let writebacks = |at: usize| report["policies"][at]["writebacks"].as_u64().expect("a number");
        (writebacks(0), writebacks(1))
    };
    let (known, unknown) = (policies(&signed, &[]), policies(&plain, &["--format", "compact"]));
    assert_eq!(policies(&lackey, &[]), known);
    assert_eq!(known.0, unknown.0, "LRU makes no use of it");
    assert_ne!(known.1, unknown.1);
}

#[test]
fn wrong_traces_and_wrong_words_are_told() {
    let folder = folder(true);
    let trace = folder.path().join("trace");
    let trace = trace.to_str().expect("text");
    fs::write(trace, " L 1000,8\n L zz,8\n").expect("written");
    assert!(refused(ferrite().args(["sim", "llc", "--trace", trace]), 1).contains("trace:2: "));
    fs::write(trace, [2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]).expect("written");
    let llc_of = |words: &[&str]| refused(ferrite().args(["sim", "llc", "--trace", trace]).args(words), 1);
    assert!(llc_of(&[]).contains("no known format; name one with --format"));
    assert!(llc_of(&["--format", "compact"]).contains("truncated"));
    fs::write(trace, "").expect("written");
    assert!(llc_of(&[]).contains("it is empty") && llc_of(&["--format", "din"]).contains("it is empty"));
    let to = folder.path().join("to");
    let said = refused(ferrite().args(["sim", "convert", trace, "--as", "compact"]).arg(&to), 1);
    assert!(said.contains("it is empty") && !to.exists(), "{said}");
    let llc = |words: &[&str]| refused(ferrite().args(["sim", "llc", "--trace", trace]).args(words), 2);
    for wrong in [["--policy", "mru"], ["--llc", "3M:16"], ["--llc", "2M"], ["--wear", "much"], ["--line", "48"]] {
        llc(&wrong);
    }
    refused(ferrite().args(["sim", "llc"]), 2);
    let help = run(ferrite().args(["sim", "llc", "--help"]));
    assert!(help.contains("Processes that it starts are not recorded"), "{help}");
    llc(&["--filtered", "--l1", "4K:2"]);
    llc(&["--filtered", "--instructions"]);
    for wrong in [&["--filtered"][..], &["--format", "din"]] {
        let said = refused(ferrite().args(["sim", "llc"]).args(wrong).arg("true"), 2);
        assert!(said.contains(wrong[0]), "of traces, and this is a program: {said}");
    }
}

/// If the last line lacks its end, the trace may be truncated within that line.
#[test]
fn a_trace_that_may_be_cut_is_told() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (trace, to) = (at("trace"), at("to"));
    let is_told = |words: &[&str]| {
        let output = ferrite().arg("sim").args(words).output().expect("it runs");
        assert!(output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stderr).contains("trace: its last line has no end")
    };
    let texts =
        ["0 1000\n1 200c", " L 1000,8\n S 2000,8", "13 20734016\n1 20846400 20734080", "1 1: 7 read 8 byte(s) @ 0x10"];
    for (text, is_cut) in texts.into_iter().flat_map(|text| [(text.to_owned(), true), (format!("{text}\n"), false)]) {
        fs::write(&trace, &text).expect("written");
        assert_eq!(is_told(&["llc", "--trace", &trace]), is_cut, "{text:?}");
        assert_eq!(is_told(&["llc", "--filtered", "--trace", &trace]), is_cut, "{text:?}");
        assert_eq!(is_told(&["convert", &trace, &to, "--as", "compact"]), is_cut, "{text:?}");
    }
}

/// Ctrl-C prints the figures up to that point, keeps the accesses saved so far, and gives a failure status.
#[test]
fn an_interrupted_study_prints_what_it_knows() {
    let folder = folder(true);
    let kept = folder.path().join("kept").display().to_string();
    let mut child = ferrite()
        .args(["sim", "llc", "--json", "--format", "din", "--save", &kept, "--trace", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    // The trace is larger than a pipe's buffer. When the write returns, the command reads the trace and has installed
    // its signal handler.
    for n in 0..30_000 {
        stdin.write_all(format!("0 1000\n1 {:x}\n", n * 64).as_bytes()).expect("it reads");
    }
    signal(child.id(), "INT");
    assert_eq!(wait(&mut child, Duration::from_secs(20)), Some(1));
    let output = std::io::read_to_string(child.stdout.take().expect("piped")).expect("text");
    let report: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(report["policies"][0]["policy"], "lru");
    let again = told(&["sim", "llc", "--filtered", "--trace", &kept]);
    assert_eq!((&report["events"], &report["policies"]), (&again["events"], &again["policies"]));
    assert_eq!((&report["stopped"], again.get("stopped")), (&json!("interrupted"), None));
}

/// Ctrl-C also ends a study whose pipe has sent too few bytes to detect the format. The study then prints no figures.
#[test]
fn a_study_of_a_trace_that_never_begins_is_interrupted() {
    let folder = folder(true);
    let to = folder.path().join("to").display().to_string();
    for words in [
        &["llc", "--json", "--trace", "-"][..],
        &["convert", "-", &to, "--as", "compact"],
        &["convert", "-", &to, "--as", "plain"],
    ] {
        let mut command = ferrite();
        command.arg("sim").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"0 1000\n").expect("it reads");
        let catches = || {
            let threads = fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs").flatten();
            threads.into_iter().any(|one| fs::read_to_string(one.path().join("comm")).is_ok_and(|it| it == "signals\n"))
        };
        let until = Instant::now() + Duration::from_secs(10);
        while !catches() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(child.id(), "INT");
        assert_eq!(wait(&mut child, Duration::from_secs(20)), Some(1), "{words:?}");
        let output = child.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("interrupted before") && output.stdout.is_empty(), "{words:?}: {said}");
        assert!(!Path::new(&to).exists(), "{words:?}");
    }
}

/// The simulators and conversions never overwrite their input trace.
#[test]
fn a_trace_is_not_written_onto_itself() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (accesses, blocks, linked) = (path("accesses"), path("blocks"), path("linked"));
    fs::write(&accesses, "0 1000\n1 2000\n").expect("written");
    fs::write(&blocks, "W 0 4\n").expect("written");
    std::os::unix::fs::symlink(&accesses, &linked).expect("made");
    refused(ferrite().args(["sim", "llc", "--trace", &accesses, "--save", &linked]), 2);
    refused(ferrite().args(["sim", "convert", &blocks, &blocks, "--as", "iolog"]), 2);
    refused(ferrite().args(["sim", "convert", &accesses, &linked, "--as", "compact"]), 2);
    assert_eq!(fs::read_to_string(&accesses).expect("there"), "0 1000\n1 2000\n");
    assert_eq!(fs::read_to_string(&blocks).expect("there"), "W 0 4\n");
}

/// The command in the hint reproduces the figures, also for several cores with their larger cache, and for other line
/// sizes.
#[test]
fn what_was_kept_is_simulated_again_as_the_hint_says() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (trace, kept) = (path("trace"), path("kept"));
    let access = |n: u64| format!("{} {:x}\n", n % 2, n % 60_000 * 64);
    fs::write(&trace, (0..200_000).map(access).collect::<String>()).expect("written");
    for (words, hint) in [
        (&["--cores", "4"][..], " --llc 8M:16\n"),
        (&["--llc", "64K:4", "--line", "128"], " --llc 64K:4 --line 128\n"),
        (&[], " --filtered\n"),
    ] {
        let mut command = ferrite();
        command.args(["sim", "llc", "--json", "--trace", &trace, "--save", &kept]).args(words);
        let output = command.output().expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.ends_with(hint), "{said}");
        let (_, again) = said.split_once("again with ").expect("a hint");
        let again = told(&[&["sim", "llc"][..], &again.split_whitespace().collect::<Vec<_>>()].concat());
        assert_eq!((&report["policies"], &report["bound"]), (&again["policies"], &again["bound"]), "{said}");
    }
}

/// Two outputs never share one path, and figures and a file never share standard output. An invalid trace creates no
/// file.
#[test]
fn what_is_written_costs_nothing_that_was_there() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (trace, wrong, kept, again) = (path("trace"), path("wrong"), path("kept"), path("./kept"));
    let accesses: String = (0..200_000).map(|n| format!("0 {:x}\n", n * 64)).collect();
    fs::write(&trace, &accesses).expect("written");
    fs::write(&wrong, format!("{accesses}8 0\n")).expect("written");
    fs::write(path("part.partial"), &accesses).expect("written");
    let part = path("part.partial");
    for [from, word, to] in [[&trace, "--plot", &trace], [&part, "--save", &path("part")]] {
        let said = refused(ferrite().args(["sim", "llc", "--trace", from, word, to]), 2);
        assert!(said.contains("write to another file"), "{said}");
        assert!(fs::read_to_string(from).expect("there") == accesses, "{from}");
    }
    let said = refused(ferrite().args(["sim", "llc", "--trace", &trace, "--save", &kept, "--plot", &again]), 2);
    assert!(said.contains("name two files") && !Path::new(&kept).exists(), "{said}");
    for word in ["--save", "--plot"] {
        let mut command = ferrite();
        let said = refused(command.args(["sim", "llc", "--trace", &trace, word, "-"]).current_dir(&folder), 2);
        assert!(said.contains("standard output is for the figures"), "{said}");
    }
    fs::write(&kept, "precious").expect("written");
    assert!(refused(ferrite().args(["sim", "llc", "--trace", &wrong, "--save", &kept]), 1).contains("wrong:200001: "));
    assert!(fs::read(&kept).expect("there") == b"precious", "what was there is gone");
    assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 4, "nothing is left beside it");
}

/// The plot shows the lifetime under wear levelling, like figure 2.5 of the paper, and the bound as a line.
#[test]
fn a_plot_shows_the_levelled_life_and_the_bound() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (trace, plot) = (path("trace"), path("plot.svg"));
    fs::write(&trace, (0..4000_u64).map(|n| (n * n % 97) << 1 | 1).flat_map(u64::to_le_bytes).collect::<Vec<_>>())
        .expect("written");
    let command = ["sim", "llc", "--filtered", "--format", "compact", "--llc", "1K:4", "--trace", &trace];
    told(&[&command[..], &["--plot", &plot]].concat());
    let drawn = fs::read_to_string(&plot).expect("it is drawn");
    for word in ["lifetime, levelled", "writebacks", "bound", "protect-0", "worth"] {
        assert!(drawn.contains(word), "{word}");
    }
}

/// If the plot cannot be drawn, the command still prints the figures.
#[test]
fn figures_are_printed_whatever_becomes_of_the_plot() {
    let folder = folder(true);
    let trace = folder.path().join("trace");
    fs::write(&trace, "0 1000\n1 200c\n").expect("written");
    let mut command = ferrite();
    command.args(["sim", "llc", "--json", "--plot", "/nowhere/plot.svg", "--trace"]).arg(&trace);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["events"], 3);
}
