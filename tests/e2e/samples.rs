//! The simulators on the repository's sample traces, and on damaged or unusual traces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::programs::ferrite;
use crate::server::{folder, json as told, refused, run};

/// Returns the path of a sample.
fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/traces").join(name).display().to_string()
}

/// Returns all samples whose names have one of `forms` after the first dot.
fn samples(forms: &[&str]) -> Vec<PathBuf> {
    let all = fs::read_dir(sample("")).expect("the samples are there").map(|found| found.expect("listed").path());
    let is_of = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        name.split('.').nth(1).is_some_and(|form| forms.contains(&form))
    };
    let found: Vec<PathBuf> = all.filter(is_of).collect();
    assert!(found.len() >= forms.len(), "{found:?} of {forms:?}");
    found
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn simulate(words: &[&str]) -> (Output, Value) {
    let output = ferrite().arg("sim").args(words).arg("--json").output().expect("it runs");
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    (output, report)
}

/// A user can simulate every sample without an option. Samples of one origin give the same figures in every format.
#[test]
fn every_sample_can_be_tried_from_a_clone() {
    let small = ["--llc", "8K:8", "--l1", "512:2"];
    let mut of_table = Vec::new();
    for path in samples(&["lackey", "din", "champsim", "drmemtrace", "ramulator", "compact", "compact-pc"]) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let report = told(&[&["sim", "llc", "--trace", path.to_str().expect("text")][..], &small].concat());
        assert_eq!(report["form"], name.split('.').nth(1).expect("a form"), "{name}");
        assert!(report["accesses"].as_u64() > Some(0), "{name}: {report}");
        if name.starts_with("table.lackey") || name.starts_with("table.compact") {
            of_table.push((report["policies"][0].clone(), report["bound"].clone()));
        }
    }
    assert!(of_table.len() == 3 && of_table.iter().all(|one| *one == of_table[0]), "{of_table:?}");
    let mut writes = Vec::new();
    for path in samples(&["plain", "disksim", "spc", "msr", "blkparse", "iolog"]) {
        let report = told(&["sim", "ftl", "--trace", path.to_str().expect("text")]);
        writes.push(report["host_writes"].as_u64().expect("a number"));
        let is_part = path.ends_with("python-times.disksim");
        assert!(is_part || report["erases"].as_u64() > Some(0), "{}: {report}", path.display());
    }
    writes.sort_unstable();
    assert!(writes[1..].iter().all(|count| *count == writes[1]), "{writes:?}");
}

/// The drive is as large as the range that the trace touches, and a message says so. A pipe, which is read once, gives
/// the default size.
#[test]
fn a_drive_is_as_large_as_its_trace() {
    let trace = sample("database.iolog.gz");
    let (_, report) = simulate(&["ftl", "--trace", &trace]);
    assert_eq!(report["drive_bytes"], json!(18 * (256 << 10)), "4.4 MiB in whole blocks");
    let text = run(ferrite().args(["sim", "ftl", "--trace", &trace]));
    assert!(text.contains("in 18+8 blocks") && text.contains("the drive's size is what the trace touches"), "{text}");
    let (_, named) = simulate(&["ftl", "--trace", &trace, "--size", "64M"]);
    assert_eq!(named["drive_bytes"], json!(64 << 20));
    let mut by_input = ferrite();
    by_input.args(["sim", "ftl", "--json", "--trace", "-"]).stdin(fs::File::open(&trace).expect("there"));
    let mut by_input: Value = serde_json::from_str(&run(&mut by_input)).expect("JSON");
    by_input["trace"] = report["trace"].clone();
    assert_eq!(by_input, report, "a file by way of standard input is read twice, too");
    let script = format!("cat {trace} | {} sim ftl --trace -", crate::programs::ferrite_path().display());
    let piped = Command::new("sh").args(["-c", &script]).output().expect("it runs");
    assert!(said(&piped).contains("a pipe is read once: the drive has 24 GiB"), "{}", said(&piped));
    let idle = refused(ferrite().args(["sim", "ftl", "--trace", &trace, "--wrap"]), 2);
    assert!(idle.contains("--wrap changes nothing"), "{idle}");
}

/// Returns the options after `from` in a message.
fn advised(said: &str, from: &str) -> Vec<String> {
    let at = said.find(from).unwrap_or_else(|| panic!("no {from} in {said}"));
    let words = said[at..].split_whitespace().take_while(|word| !matches!(*word, "has" | "is" | "begins"));
    words.map(Into::into).collect()
}

/// If the schemes do not differ, a message says so, and the advised options make them differ.
#[test]
fn what_is_advised_where_nothing_differs_makes_a_difference() {
    let trace = sample("table.lackey.xz");
    let (output, report) = simulate(&["llc", "--trace", &trace]);
    let heard = said(&output);
    assert!(
        heard.contains("no policy differs from LRU, for all ") && heard.contains("fit in the last level"),
        "{heard}"
    );
    assert_eq!(report["policies"][0]["writebacks"], report["policies"][1]["writebacks"]);
    let words = advised(&heard, "--llc ");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (output, report) = simulate(&[&["llc", "--trace", &trace][..], &words].concat());
    assert_ne!(report["policies"][0]["writebacks"], report["policies"][1]["writebacks"], "{words:?}");
    assert!(!said(&output).contains("no policy differs"), "{}", said(&output));

    let trace = sample("database.spc.gz");
    let (output, report) = simulate(&["ftl", "--trace", &trace, "--size", "8G"]);
    assert!(
        said(&output).contains("nothing was erased: the host wrote 2100 pages to a drive of "),
        "{}",
        said(&output)
    );
    assert_eq!(report["erases"], json!(0));
    let folder = folder(true);
    let short = folder.path().join("short").display().to_string();
    for (count, option) in [(900, "--prefill"), (300, "--blocks ")] {
        fs::write(&short, (0..count).map(|n| format!("W {} 1\n", n * 7 % 4096)).collect::<String>()).expect("written");
        let (output, report) = simulate(&["ftl", "--trace", &short]);
        assert_eq!(report["erases"], json!(0));
        let words = advised(&said(&output), option);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (_, report) = simulate(&[&["ftl", "--trace", &short][..], &words].concat());
        assert!(report["erases"].as_u64() > Some(0), "{words:?}: {report}");
    }
}

/// From a truncated file, the simulator reads as much as `gzip -dc`. It reports the amount, prints the figures and
/// fails with a status.
#[test]
fn a_cut_trace_gives_the_figures_of_what_there_is() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let cut = |text: &str, name: &str| {
        fs::write(at("plain"), text).expect("written");
        run(Command::new("sh").args(["-c", &format!("gzip -c {} | head -c 9000 > {}", at("plain"), at(name))]));
        let count = format!("gzip -dc {} 2>/dev/null | wc -l", at(name));
        run(Command::new("sh").args(["-c", &count])).trim().parse::<u64>().expect("a number")
    };
    let blocks: String = (0..9000).map(|n| format!("W {n} 1\n")).collect();
    let lines = cut(&blocks, "blocks.gz");
    let (output, report) = simulate(&["ftl", "--trace", &at("blocks.gz")]);
    assert_eq!((output.status.code(), &report["stopped"]), (Some(1), &json!("cut")), "{}", said(&output));
    assert_eq!((&report["host_writes"], &report["stopped_after_line"]), (&json!(lines), &json!(lines)));
    let heard = said(&output);
    assert!(heard.contains(&format!("truncated after {lines} lines")) && heard.contains("of what was read"), "{heard}");
    let accesses: String = (0..9000).map(|n| format!(" S {:x},8\n", n * 64)).collect();
    let lines = cut(&accesses, "accesses.gz");
    let kept = at("kept");
    let (output, report) = simulate(&["llc", "--trace", &at("accesses.gz"), "--save", &kept]);
    assert_eq!((output.status.code(), &report["stopped"]), (Some(1), &json!("cut")), "{}", said(&output));
    assert_eq!(report["accesses"], json!(lines));
    assert!(said(&output).contains(&format!("truncated after {lines} lines")), "{}", said(&output));
    assert_eq!(told(&["sim", "llc", "--filtered", "--trace", &kept])["policies"], report["policies"]);
}

/// gzip accepts trailing zeros.
#[test]
fn gzip_with_zeros_behind_it_is_a_whole_trace() {
    let folder = folder(true);
    let at = folder.path().join("padded.gz").display().to_string();
    run(Command::new("sh")
        .args(["-c", &format!("(cat {}; head -c 512 /dev/zero) > {at}", sample("database.plain.gz"))]));
    let (output, report) = simulate(&["ftl", "--trace", &at]);
    assert!(output.status.success() && report.get("stopped").is_none(), "{}", said(&output));
}

/// A refusal names the unreadable file, with the command that unpacks it or the option that decides its format.
#[test]
fn what_is_no_trace_is_told_with_what_to_do() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let wrong = |name: &str, bytes: &[u8], simulator: &str| {
        fs::write(at(name), bytes).expect("written");
        refused(ferrite().args(["sim", simulator, "--trace", &at(name)]), 1)
    };
    let bzip2 = wrong("t", b"BZh91AY&SY0123", "ftl");
    assert!(
        bzip2.contains("compressed with bzip2") && bzip2.contains(&format!("bzip2 -dc {} | ferrite", at("t"))),
        "{bzip2}"
    );
    assert!(wrong("t", b"PK\x03\x04\x14\0\0\0\0\0", "llc").contains("a zip archive, which"));
    assert!(wrong("t", &[0; 8000], "llc").contains("are zeros"));
    assert!(wrong("t", &[0; 8000], "ftl").contains("not a trace"));
    let both = wrong("t", b"3 0x13C6040\n1 0x13E1700 0x13C6040\n4 0x13C7040\n", "llc");
    assert!(both.contains("can be read as din and as ramulator: name one with --format"), "{both}");
}

/// More cores have a larger cache, and a message says so. An option without effect is refused.
#[test]
fn options_say_what_they_change_or_are_refused() {
    let (trace, compact) = (sample("table.lackey.xz"), sample("table.compact-pc.zst"));
    let (output, _) = simulate(&["llc", "--trace", &trace, "--cores", "4"]);
    assert!(said(&output).contains("with 4 cores the last level is 8M:16: --llc names another"), "{}", said(&output));
    assert!(
        run(ferrite().args(["sim", "llc", "--trace", &trace])).contains("events of the last level (2 MiB, 16 ways)")
    );
    simulate(&["llc", "--trace", &compact, "--cores", "4", "--llc", "1M:16"]);
    for (words, why) in [
        (&["--trace", &trace, "--cores", "4", "--llc", "1M:16"][..], "--cores changes nothing: a trace of form lackey"),
        (&["--trace", &compact, "--instructions"], "--instructions changes nothing: a trace of form compact-pc"),
        (&["--trace", &trace, "--policy", "protect-4", "--protect", "3"], "--protect is for --policy protect"),
        (&["--trace", &trace, "--policy", "worth", "--partitions", "2"], "--partitions is for --policy partitioned"),
        (&["--cores", "2", "--llc", "1M:16", "true"], "--cores changes nothing: of a program every thread is a core"),
    ] {
        let heard = refused(ferrite().args(["sim", "llc"]).args(words), 2);
        assert!(heard.contains(why), "{words:?}: {heard}");
    }
    let words = ["sim", "convert", &sample("database.spc.gz"), "/dev/null", "--as", "msr", "--page", "8K"];
    assert!(refused(ferrite().args(words), 2).contains("--page changes nothing"));
}

/// The simulator refuses tables larger than memory before it allocates them.
#[test]
fn what_does_not_fit_in_memory_is_refused() {
    let (accesses, blocks) = (sample("table.lackey.xz"), sample("database.plain.gz"));
    let folder = folder(true);
    let far = folder.path().join("far").display().to_string();
    fs::write(&far, "0,h,0,Write,9000000000000000,4096,1\n").expect("written");
    let heard = refused(ferrite().args(["sim", "ftl", "--trace", &far]), 2);
    assert!(heard.contains("too many blocks") && heard.contains("--wrap takes addresses modulo"), "{heard}");
    for words in [
        &["llc", "--trace", &accesses, "--llc", "256G:16"][..],
        &["llc", "--trace", &accesses, "--l1", "256G:16", "--cores", "256"],
        &["ftl", "--trace", &blocks, "--size", "14T"],
    ] {
        let heard = refused(ferrite().arg("sim").args(words), 2);
        assert!(heard.contains(" MiB of memory, and ") && heard.contains(" MiB are available"), "{words:?}: {heard}");
    }
}
