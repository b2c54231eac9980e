//! The simulators as commands.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, folder, json as told, refused, run, signal, wait};

/// The test computed these figures by hand for blocks of four pages, all in use. The drive switches the sequential log
/// once, and the last page is written again.
#[test]
fn a_plain_trace_wears_a_drive_as_worked_out() {
    let folder = folder(true);
    let trace = folder.path().join("trace");
    fs::write(&trace, "# one block in order, then the next begins\nW 0 4\nW 4 1\nR 0 8\nW 4 1\n").expect("written");
    let trace = trace.to_str().expect("text");
    let drive = ["sim", "ftl", "--trace", trace, "--blocks", "8+4", "--page", "4K", "--block", "16K", "--prefill"];
    let fast = told(&[&drive[..], &["--scheme", "fast"]].concat());
    let of = |report: &Value, names: &[&str]| names.iter().map(|name| report[name].clone()).collect::<Value>();
    let names = ["scheme", "host_writes", "host_reads", "erases", "copied_pages", "write_amplification"];
    assert_eq!(of(&fast, &names), json!(["fast", 6, 8, 2, 3, 1.5]));
    assert_eq!(of(&fast, &["switch_merges", "partial_merges", "full_merges"]), json!([1, 1, 0]));
    let page = told(&[&drive[..], &["--scheme", "page"]].concat());
    assert_eq!(of(&page, &names), json!(["page", 6, 8, 1, 0, 1.0]));
}

/// Each of two traces runs on drives of both schemes and is read once, like a pipe. Each run equals a run alone, and
/// the plot shows all. If the second trace is invalid, the command still reports the first.
#[test]
fn traces_and_schemes_are_compared() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (random, ordered, wrong, plot) = (at("random"), at("ordered"), at("wrong"), at("plot.svg"));
    let lines = |line: &dyn Fn(u64) -> String| (0..2000).map(line).collect::<String>();
    fs::write(&random, lines(&|n| format!("W {} 1\n", n * n * 7 % 31))).expect("written");
    fs::write(&ordered, lines(&|n| format!("W {} 4\n", n % 8 * 4))).expect("written");
    fs::write(&wrong, "W 0 4\nW x 4\n").expect("written");
    let drive = ["--blocks", "8+4", "--block", "16K"];
    let both = ["--scheme", "page", "--scheme", "fast"];
    let traces = ["sim", "ftl", "--trace", &random, "--trace", &ordered, "--plot", &plot];
    let report = told(&[&traces[..], &drive, &both].concat());
    let runs = report["runs"].as_array().expect("runs");
    let mut alone = Vec::new();
    for trace in [&random, &ordered] {
        alone.extend(["page", "fast"].map(|scheme| {
            let one = ["sim", "ftl", "--trace", trace, "--scheme", scheme];
            told(&[&one[..], &drive].concat())
        }));
    }
    assert_eq!(runs, &alone);
    assert!(runs.iter().all(|run| run["erases"].as_u64() > Some(0)), "{report}");
    let drawn = fs::read_to_string(&plot).expect("drawn");
    for label in ["random", "ordered", "figure 3.11", "figure 3.12"] {
        assert!(drawn.contains(label), "{label}");
    }

    let traces = ["sim", "ftl", "--trace", &random, "--trace", &wrong, "--json"];
    let ended = ferrite().args(traces).args(drive).output().expect("it runs");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("the figures");
    assert_eq!((ended.status.code(), &report["runs"]), (Some(1), &json!([alone[0]])));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("wrong:2: the page is"));

    let onto = refused(ferrite().args(["sim", "ftl", "--trace", &random, "--plot", &random]), 2);
    assert!(onto.contains("is the trace itself"), "{onto}");
    refused(ferrite().args(["sim", "ftl", "--trace", "-", "--trace", "/dev/stdin"]).stdin(Stdio::piped()), 2);
    let read = || fs::File::open(&random).expect("there");
    for words in [&["ftl", "--trace", "-", "--plot", &random][..], &["convert", "-", &random, "--as", "plain"]] {
        let onto = refused(ferrite().arg("sim").args(words).stdin(read()), 2);
        assert!(onto.contains("is the trace itself"), "by any name: {onto}");
    }
    refused(ferrite().args(["sim", "ftl", "--trace", &random, "--scheme", "page", "--log-blocks", "2"]), 2);
}

/// Some formats have requests of zero bytes, anywhere within a page. Such requests touch no page in any format.
#[test]
fn a_request_without_bytes_touches_no_page() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("trace"), "0,h,0,Write,100,0,1\n1,h,0,Read,5000,0,1\n2,h,0,Write,4096,1,1\n").expect("written");
    for format in ["msr", "plain", "disksim", "spc", "blkparse", "iolog"] {
        run(ferrite().args(["sim", "convert", &at("trace"), &at(format), "--as", format]));
        let report = told(&["sim", "ftl", "--trace", &at(format), "--blocks", "8+8"]);
        assert_eq!((&report["host_writes"], &report["host_reads"]), (&json!(1), &json!(0)), "{format}");
    }
}

#[test]
fn a_trace_that_is_wrong_is_told_with_its_line() {
    let folder = folder(true);
    let trace = folder.path().join("trace");
    let trace = trace.to_str().expect("text");
    for (text, said) in [
        ("W 0 4\nW x 4\n", "trace:2: the page is"),
        ("W 0 4\nW 99 4\n", "that the drive has: give a larger --size, or --wrap"),
    ] {
        fs::write(trace, text).expect("written");
        let drive = ["sim", "ftl", "--trace", trace, "--blocks", "8+4", "--block", "16K"];
        assert!(refused(ferrite().args(drive), 1).contains(said), "{said}");
    }
    fs::write(trace, "W 30 4\nW 0 4000000000\n").expect("written");
    let drive = ["sim", "ftl", "--trace", trace, "--blocks", "8+4", "--block", "16K", "--wrap"];
    let said = refused(ferrite().args(drive), 1);
    assert!(
        said.contains("trace:2: a request of 4000000000 pages is larger than the drive"),
        "more than the drive, round and round: {said}"
    );
    refused(ferrite().args(["sim", "ftl", "--trace", trace, "--blocks", "8"]), 2);
    let said = refused(ferrite().args(["sim", "ftl", "--trace", trace, "--size", "4M"]), 2);
    assert!(said.contains("2 extra blocks are too few") && said.contains("--over-provision or --blocks"), "{said}");
    let said = refused(ferrite().args(["sim", "ftl", "--trace", trace, "--scheme", "fast", "--blocks", "8+2"]), 2);
    assert!(said.contains("needs 3 extra blocks at least, not 2"), "{said}");
}

/// A trace that is converted through every format and back, compressed on the way, equals the original.
#[test]
fn traces_are_converted_and_read_from_pipes() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = "W 5 3\nR 0 1\nW 7 1\n";
    fs::write(at("plain"), text).expect("written");
    let mut last = at("plain");
    for format in ["iolog", "blkparse", "msr", "spc", "disksim", "plain"] {
        let next = at(&format!("{format}.trace"));
        run(ferrite().args(["sim", "convert", &last, &next, "--as", format]));
        last = next;
    }
    assert_eq!(fs::read_to_string(&last).expect("there"), text);
    // The conversion writes into a pipe, with and without a name. The named pipe remains a pipe.
    let (convert, din, fifo) = (format!("{} sim convert", ferrite_path().display()), at("din"), at("fifo"));
    fs::write(&din, "0 1000\n1 200c\n").expect("written");
    let dashed = format!("{convert} - - --as compact < {din} | zstd -dc | od -An -tu8");
    let named = format!(
        "mkfifo {fifo} && {{ {convert} {din} {fifo} --as compact & timeout 20 cat {fifo} | zstd -dc | od -An -tu8; }} && test -p {fifo}"
    );
    for script in [dashed, named] {
        let words = run(Command::new("sh").args(["-c", &script]));
        assert_eq!(words.split_whitespace().collect::<Vec<_>>(), ["128", "257"], "{script}");
    }
    let script = format!("gzip -c {last} | {} sim convert - - --as plain", ferrite_path().display());
    assert_eq!(run(Command::new("sh").args(["-c", &script])), text);
}

/// A trace of unknown content needs --format. An option for the other kind of trace is refused and not ignored.
#[test]
fn a_conversion_takes_the_options_of_its_kind_alone() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (blocks, accesses, to) = (at("blocks"), at("accesses"), at("to"));
    fs::write(&blocks, "0,8,4096,Read,0.5,1,2\n").expect("written");
    fs::write(&accesses, "0 1000\n1 2000\n").expect("written");
    for (words, said) in [
        (&[&blocks, "--as", "spc", "--format", "din"][..], "no format \"din\"; there are plain, disksim"),
        (&[&blocks, "--as", "spc", "--line", "128"], "--line is for traces of accesses"),
        (&[&blocks, "--as", "spc", "--cores", "2"], "--cores is for traces of accesses"),
        (&[&accesses, "--as", "compact", "--device", "3"], "--device is for block traces"),
        (&[&accesses, "--as", "compact", "--page", "8K"], "--page is for block traces"),
        (&[&accesses, "--as", "compact-pc", "--format", "spc"], "no format \"spc\"; there are lackey"),
    ] {
        let heard = refused(ferrite().args(["sim", "convert"]).args(words).arg(&to), 2);
        assert!(heard.contains(said), "{words:?}: {heard}");
    }
    fs::write(&blocks, "0,8,4096,W,0.5\n").expect("written");
    let spc = refused(ferrite().args(["sim", "convert", &blocks, &to, "--as", "plain", "--format", "msr"]), 1);
    assert!(spc.contains("blocks:1: the type is \"W\": expected Read or Write"), "as what --format names: {spc}");
    run(ferrite().args(["sim", "convert", &blocks, &to, "--as", "plain", "--format", "spc", "--page", "4K"]));
    assert_eq!(fs::read_to_string(&to).expect("there"), "W 1 1\n");
}

/// Ctrl-C in the middle of a trace from a pipe prints the figures so far, and a note that the trace is incomplete.
#[test]
fn an_interrupted_simulation_tells_what_is_known() {
    let drive = ["sim", "ftl", "--trace", "-", "--blocks", "64+8", "--json"];
    let mut command = ferrite();
    command.args(drive).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("ferrite starts");
    let mut trace = child.stdin.take().expect("piped");
    // The trace exceeds the pipe's buffer and the read-ahead, so most of it has been replayed when the write returns.
    trace.write_all("W 7 2\n".repeat(100_000).as_bytes()).expect("it is read");
    signal(child.id(), "INT");
    let ended = child.wait_with_output().expect("it ends");
    drop(trace);
    assert_eq!(ended.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&ended.stdout).expect("the figures");
    let writes = report["host_writes"].as_u64().expect("a number");
    assert!((2..200_000).contains(&writes), "{writes}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains(&format!("stopped after line {}", writes / 2)), "{said}");
}

/// Ctrl-C ends the command during the prefill of a large drive.
#[test]
fn an_interrupted_prefill_ends() {
    let folder = folder(true);
    let trace = folder.path().join("trace");
    fs::write(&trace, "W 0 1\n").expect("written");
    let mut command = ferrite();
    command.args(["sim", "ftl", "--size", "100G", "--prefill", "--trace"]).arg(&trace).stderr(Stdio::piped());
    let child = command.spawn().expect("ferrite starts");
    let threads = format!("/proc/{}/task", child.id());
    let hears = |thread: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(thread.expect("listed").path().join("comm")).is_ok_and(|name| name == "signals\n")
    };
    while !fs::read_dir(&threads).expect("it runs").any(hears) {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(child.id(), "INT");
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("stopped while page was prefilled"), "{said}");
}

/// The second of two pipes sends almost no data. The command still reports the first trace and the fate of the second,
/// although neither pipe had a writer at the start.
#[test]
fn a_silent_pipe_costs_nothing_that_came_before_it() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (first, second) = (at("first"), at("second"));
    run(Command::new("mkfifo").args([&first, &second]));
    let words = ["sim", "ftl", "--trace", &first, "--trace", &second, "--blocks", "64+8", "--json"];
    let child = ferrite().args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ferrite starts");
    // The trace exceeds the pipe's buffer and the bytes that the detection of the format reads.
    fs::write(&first, "W 7 2\n".repeat(100_000)).expect("it is read");
    let mut held = fs::File::options().write(true).open(&second).expect("its turn has come");
    held.write_all(b"W 7 2\n").expect("it is read");
    signal(child.id(), "INT");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&ended.stdout).expect("the figures");
    let of = |run: usize, name: &str| report["runs"][run][name].as_u64();
    assert_eq!((of(0, "host_writes"), of(0, "stopped_after_line")), (Some(200_000), None), "{report}");
    assert_eq!((of(1, "host_writes"), of(1, "stopped_after_line")), (Some(0), Some(0)), "{report}");
}

/// One Ctrl-C ends a conversion from a silent pipe, and the conversion keeps the old file.
#[test]
fn a_conversion_from_a_silent_pipe_can_be_interrupted() {
    let folder = folder(true);
    let to = folder.path().join("to").display().to_string();
    for (form, lines) in [("plain", "W 7 2\n"), ("compact", "0 1000\n1 200c\n")] {
        fs::write(&to, form).expect("written");
        let mut command = ferrite();
        command.args(["sim", "convert", "-", &to, "--as", form]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("ferrite starts");
        let mut trace = child.stdin.take().expect("piped");
        // The trace exceeds the pipe's buffer and one read. When the write returns, the command reads the trace and has
        // installed its signal handler.
        trace.write_all(lines.repeat(200_000).as_bytes()).expect("it is read");
        signal(child.id(), "INT");
        assert_eq!(wait(&mut child, Duration::from_secs(20)), Some(1), "{form}");
        let heard = std::io::read_to_string(child.stderr.take().expect("piped")).expect("text");
        assert!(heard.contains("interrupted"), "{form}: {heard}");
        assert_eq!(fs::read_to_string(&to).expect("there"), form);
        drop(trace);
    }
}

/// A file that turns out not to be a trace does not change the target, and the conversion leaves no temporary file.
#[test]
fn a_conversion_that_fails_leaves_what_was_there() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("from"), format!("{}what\n", "W 7 2\n".repeat(100_000))).expect("written");
    fs::write(at("to"), "precious").expect("written");
    let said = refused(ferrite().args(["sim", "convert", &at("from"), &at("to"), "--as", "iolog"]), 1);
    assert!(said.contains("from:100001"), "{said}");
    assert!(fs::read(at("to")).expect("there") == b"precious", "what was there is gone");
    assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 2);
}

/// A disk served as a flash drive reports its simulated erases. Clients fill four blocks and overwrite them twice, each
/// by a sequential log that the drive switches when the next begins.
#[test]
fn an_exported_drive_counts_its_erases() {
    let folder = folder(true);
    let (image, socket) = (folder.path().join("image"), folder.path().join("nbd"));
    fs::File::create(&image).and_then(|file| file.set_len(4 << 20)).expect("made");
    let address = format!("ftl-fast:{}", image.display());
    let said = folder.path().join("said");
    let mut export = ferrite();
    export.args(["disk", "export", &address, "--unix"]).arg(&socket).stderr(fs::File::create(&said).expect("made"));
    let server = Server::of(&mut export, &image, "nbd+unix");
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    for _ in 0..3 {
        run(client("qemu-io").args(["-f", "raw", "-c", "write -P 7 0 1M", &uri]));
    }
    server.interrupt();
    let said = fs::read_to_string(&said).expect("there");
    assert!(said.contains("ftl-fast on 4 MiB") && said.contains("7 switch"), "{said}");
}

/// The server records the requests to an exported disk until Ctrl-C, and a simulated flash drive replays them.
#[test]
fn an_exported_disk_is_traced() {
    let folder = folder(true);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (image, socket, trace) = (at("image"), at("nbd"), at("trace"));
    fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("made");
    let uri = format!("nbd+unix:///?socket={socket}");
    let export = |to: &str| {
        let mut export = ferrite();
        export.args(["disk", "export", &image, "--unix", &socket, "--trace", to]);
        export
    };
    let server = Server::of(&mut export(&trace), image.as_ref(), "nbd+unix");
    run(client("qemu-io").args([
        "-f",
        "raw",
        "-c",
        "write -P 7 0 1M",
        "-c",
        "read 0 64k",
        "-c",
        "discard 0 64k",
        &uri,
    ]));
    server.interrupt();
    let text = fs::read_to_string(&trace).expect("there");
    assert!(text.starts_with("fio version 3 iolog\n") && text.ends_with(" disk close\n"), "{text}");
    let report = told(&["sim", "ftl", "--trace", &trace, "--size", "64M"]);
    let of = |name: &str| report[name].as_u64();
    assert_eq!((of("host_writes"), of("host_reads"), of("trimmed_pages")), (Some(256), Some(16), Some(16)), "{text}");

    // The client copies a new ext4 file system to the disk.
    let server = Server::of(&mut export(&trace), image.as_ref(), "nbd+unix");
    let made = at("made");
    fs::File::create(&made).and_then(|file| file.set_len(64 << 20)).expect("made");
    run(client("mkfs.ext4").args(["-q", &made]));
    run(client("nbdcopy").args([&made, &uri]));
    server.interrupt();
    let report = told(&["sim", "ftl", "--trace", &trace, "--size", "64M", "--scheme", "fast"]);
    assert!(report["host_writes"].as_u64() > Some(100), "{report}");

    // If the server cannot write the trace, it reports that at the end, and no request fails.
    let mut full = export("/dev/full");
    let said = at("said");
    full.stderr(fs::File::create(&said).expect("made"));
    let server = Server::of(&mut full, image.as_ref(), "nbd+unix");
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 7 0 1M", &uri]));
    signal(server.pid(), "INT");
    assert_eq!(server.ended(), Some(1));
    let said = fs::read_to_string(&said).expect("there");
    assert!(said.contains("/dev/full: no space left"), "{said}");
    for wrong in ["-", &image] {
        refused(&mut export(wrong), 2);
    }
}
