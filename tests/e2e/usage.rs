//! Answers of the command line to right and wrong arguments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, folder, json, ok, refused, run, signal, wait};

#[test]
fn help_is_no_error_and_wrong_words_are_wrong_usage() {
    run(ferrite().arg("--help"));
    for command in ["up", "pool", "tag", "disk", "fs", "bench"] {
        assert!(run(ferrite().args([command, "--help"])).len() > 200, "{command} --help teaches");
    }
    refused(ferrite().arg("nonsense"), 2);
    refused(ferrite().args(["disk", "create", "p", "n", "--size", "ten"]), 2);
    refused(ferrite().args(["up", "--disk", "nosize"]), 2);
    let said = refused(ferrite().args(["up", "--tcp", "localhost:1"]), 2);
    assert!(said.contains("such as 127.0.0.1:10809"), "{said}");
    for how in [&["--cached"][..], &["--data", "posix"], &["--allow-other"]] {
        let said = refused(ferrite().args(["up", "--no-mount"]).args(how), 2);
        assert!(said.contains("cannot be used with") && said.contains(how[0]), "{said}");
    }
}

/// If the help cannot be written, the command fails. If its reader has exited, the command succeeds.
#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for asked in ["--help", "--version"] {
        let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let said = refused(ferrite().arg(asked).stdout(full()), 1);
        assert!(said.contains("writing to standard output: No space left"), "{said}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert!(ferrite().arg(asked).stdout(writer).status().expect("it runs").success());
    }
}

#[test]
fn wrong_options_are_told_before_anything_happens() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let pool = pool.to_str().expect("text");
    refused(ferrite().args(["pool", "create", pool, "--size", "1K"]), 2);
    refused(ferrite().args(["pool", "create", pool]), 2);
    assert!(!folder.path().join("pool").exists(), "a refused pool leaves no file");
    ok(&["pool", "create", pool, "--size", "32M"]);
    assert!(refused(ferrite().args(["pool", "create", pool, "--size", "32M"]), 1).contains("--lose 33554432 "));
    ok(&["disk", "create", pool, "d", "--size", "1M"]);
    for wrong in [["--guard", "magic"], ["--scheme", "fast"]] {
        assert!(refused(ferrite().args(["disk", "serve", pool, "d"]).args(wrong), 2).contains(wrong[1]));
    }
    for wrong in
        [&["--buffers", "2"][..], &["--guard", "buffered", "--high", "2"], &["--guard", "buffered", "--buffers", "0"]]
    {
        refused(ferrite().args(["disk", "serve", pool, "d"]).args(wrong), 2);
    }
    let said = refused(ferrite().args(["disk", "create", pool, "d", "--size", "1M"]), 1);
    assert!(said.contains("already") && said.contains("`ferrite disk remove`"), "{said}");
    let said = refused(ferrite().args(["disk", "create", pool, "e", "--size", "1G"]), 1);
    assert!(
        said.contains("full") && said.contains("`ferrite pool grow`") && said.contains("`ferrite disk remove`"),
        "{said}"
    );
    assert!(refused(ferrite().args(["disk", "resize", pool, "d", "--size", "512K"]), 1).contains("only grow"));
    assert!(refused(ferrite().args(["disk", "stat", pool, "x"]), 1).contains("no disk called \"x\""));
}

/// A name in use by bytes can get new content, and the refusal says how.
#[test]
fn a_taken_name_says_how_it_is_replaced() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, content) = (path("pool"), path("content"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    ok(&["disk", "create", &pool, "d", "--size", "1M"]);
    std::fs::write(&content, "content").expect("written");
    ok(&["tag", "put", &pool, "t", &content]);
    for lose in [&[][..], &["--lose", "8"]] {
        assert!(refused(ferrite().args(["tag", "put", &pool, "t", &content]).args(lose), 1).contains("--lose 7 "));
    }
    ok(&["tag", "put", &pool, "t", &content, "--lose", "7"]);
    let said = refused(ferrite().args(["tag", "put", &pool, "d", &content]), 1);
    assert!(said.contains("a disk") && !said.contains("--lose"), "bytes take no disk's place: {said}");
    let said = refused(ferrite().args(["disk", "create", &pool, "t", "--size", "1M"]), 1);
    assert!(said.contains("`ferrite tag remove`") && !said.contains("--lose"), "{said}");
}

/// A message distinguishes a missing name from a name of another kind. For a command that uses the name, the message
/// advises to create it.
#[test]
fn a_name_that_is_missing_or_of_another_kind_says_so() {
    let folder = folder(true);
    let pool = folder.path().join("pool").to_str().expect("text").to_owned();
    ok(&["pool", "create", &pool, "--size", "64M"]);
    ok(&["disk", "create", &pool, "d", "--size", "1M"]);
    ok(&["fs", "create", &pool, "f"]);
    let said = |words: &[&str], name: &str| refused(ferrite().args(words).args([&pool, name]), 1);
    for remove in [["disk", "remove"], ["fs", "remove"], ["disk", "stat"], ["fs", "unmount"]] {
        let said = said(&remove, "x");
        assert!(said.contains("called \"x\"") && !said.contains("create"), "{said}");
    }
    assert!(said(&["disk", "serve"], "x").contains("`ferrite disk create` it"));
    assert!(said(&["fs", "remove"], "d").contains("\"d\" is no file system, but a disk"));
    assert!(said(&["disk", "remove"], "f").contains("\"f\" is no disk, but a file system"));
    assert!(said(&["fs", "create"], "d").contains("already exists, a disk: "));
    assert!(said(&["fs", "create"], "f").contains("already exists, a file system: "));
    assert!(refused(ferrite().args(["disk", "create", &pool, "e", "--size", "8T"]), 1).contains("4 TiB at most"));
    assert!(refused(ferrite().args(["pool", "restore", "/etc/passwd", "none"]), 1).contains("/etc/passwd"));
    assert!(refused(ferrite().args(["pool", "backup", &pool, "-"]), 2).contains("name one"));
    assert!(ok(&["wal", "drain", &pool]).contains("nothing to give back"));
    assert!(refused(ferrite().args(["run", "--stats", "--", "true"]), 127).contains("neither an option"));
}

/// Every command reports a file that is not a pool, with advice.
#[test]
fn what_is_no_pool_says_what_to_do() {
    let folder = folder(true);
    let at = folder.path().to_str().expect("text");
    let missing = format!("{at}/missing");
    for words in [
        &["pool", "info"][..],
        &["pool", "check"],
        &["disk", "list"],
        &["tag", "list"],
        &["pool", "grow"],
        &["wal", "stat"],
        &["wal", "drain"],
    ] {
        let said = refused(ferrite().args(words).arg(&missing), 1);
        assert!(said.contains("ferrite pool create") && said.contains("ferrite up --pool"), "{words:?}: {said}");
        let said = refused(ferrite().args(words).arg(at), 1);
        assert!(said.contains("is a folder"), "{words:?}: {said}");
    }
    assert!(refused(ferrite().args(["disk", "copy", ":x", &missing]), 2).contains("name its file"));
    let said = refused(ferrite().args(["pool", "info", &format!("{missing} it")]), 1);
    assert!(said.contains(&format!("`ferrite pool create '{missing} it' --size 1G`")), "a shell takes it: {said}");
    for lose in [&[][..], &["--lose", "1"]] {
        let said = refused(ferrite().args(["pool", "create", at, "--size", "32M"]).args(lose), 1);
        assert!(said.contains("is a folder"), "{said}");
    }
}

/// A user can type the commands in a message.
#[test]
fn a_size_that_is_advised_is_one() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, empty, image) = (path("pool"), path("empty"), path("image"));
    let said = refused(ferrite().args(["up", "--pool", &pool, "--disk", "d=1G"]), 2);
    assert!(said.contains("--size 1100M at least"), "{said}");
    assert!(refused(ferrite().args(["pool", "create", &pool, "--size", "1M"]), 2).contains(" 8 MiB at least"));
    std::fs::write(&empty, "").expect("written");
    let said = refused(ferrite().args(["pool", "create", &empty]), 2);
    assert!(said.contains(" 8 MiB at least: give a --size"), "{said}");
    ok(&["pool", "create", &empty, "--size", "32M"]);
    ok(&["pool", "backup", &empty, &image]);
    assert!(
        refused(ferrite().args(["pool", "restore", &image, &pool, "--size", "8M"]), 2).contains(" 32 MiB: --size 32M")
    );
}

/// A negative number is the value of the option, and the message refuses it as such.
#[test]
fn a_negative_number_is_told_what_may_be_there() {
    let told: [(&[&str], &str); 6] = [
        (&["pool", "wear", "p", "--top", "-1"], "0 or more"),
        (&["up", "--rdsx", "-1"], "give 1 to"),
        (&["up", "--rdlat", "-1"], "0 or more"),
        (&["up", "--guard", "buffered", "--low", "-0.5"], "0 <= low"),
        (&["bench", "pace", "--threads", "-1"], "1..=65535"),
        (&["disk", "create", "p", "d", "--size", "-1"], "is no size"),
    ];
    for (words, why) in told {
        let said = refused(ferrite().args(words), 2);
        assert!(said.contains(why) && !said.contains("-- -"), "{words:?}: {said}");
    }
}

/// If `--only` matches no case, an experiment lists the cases and writes nothing. Like an interrupted experiment, it
/// removes a folder that it made.
#[test]
fn an_experiment_without_cases_is_wrong_usage() {
    let folder = folder(true);
    let words = ["bench", "protection", "--quick", "--only", "nonsense", "--output"];
    for output in ["", "new/out"] {
        let said = refused(ferrite().args(words).arg(folder.path().join(output)), 2);
        assert!(said.contains("nonsense") && said.contains("WR SEQ 4K Q1"), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
}

/// With `--json`, the report goes to standard output, as for every command. If a file is given, the report goes there.
#[test]
fn a_report_is_printed_as_json_or_written_where_asked() {
    let folder = folder(true);
    let words = ["bench", "pace", "--quick", "--only", "asked", "--output", "out", "--json"];
    let bench = |more: &[&str]| run(ferrite().args(words).args(more).current_dir(folder.path()));
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(parsed(&bench(&[]))["experiment"], "pace");
    assert!(folder.path().join("out/pace.json").exists());
    assert!(bench(&["elsewhere"]).contains("case"), "the table");
    let written = std::fs::read_to_string(folder.path().join("elsewhere")).expect("written");
    assert_eq!(parsed(&written)["experiment"], "pace");
}

/// The command reports an unwritable target before minutes of measurement, and prints the results in any case.
#[test]
fn a_report_that_cannot_be_written_is_refused_before_or_told_all_the_same() {
    let folder = folder(true);
    let out = folder.path().join("new/out");
    let bench = || {
        let mut command = ferrite();
        command.args(["bench", "pace", "--quick", "--only", "asked", "--output"]).arg(&out);
        command
    };
    for nowhere in ["/nonexistent/x.json", "/dev"] {
        let said = refused(bench().args(["--json", nowhere]), 1);
        assert!(said.contains(&format!("writing {nowhere}")) && !said.contains("case"), "{said}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "no folder stays");
    }
    let said = refused(bench().args(["--json", "/dev/full"]), 1);
    assert!(said.contains("case") && said.contains("No space left"), "{said}");
    assert!(out.join("pace.csv").exists() && out.join("pace.svg").exists(), "the others are written");
    std::fs::remove_file(out.join("pace.csv")).expect("removed");
    std::os::unix::fs::symlink("/dev/full", out.join("pace.csv")).expect("linked");
    let said = refused(bench().arg("--json"), 1);
    assert!(said.contains("\"experiment\": \"pace\"") && said.contains("pace.csv: No space left"), "{said}");
}

/// Help fits the width of the terminal.
#[test]
fn help_is_as_wide_as_the_terminal() {
    for words in [&["up"][..], &["disk", "serve"], &["disk", "copy"], &["bench"]] {
        let text = run(ferrite().args(words).arg("--help").env("COLUMNS", "80"));
        let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
}

/// A check of a pool that cannot be opened does not advise a check, and its JSON has one word for programs.
#[test]
fn a_check_of_a_broken_pool_says_so() {
    use std::os::unix::fs::FileExt;
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "32M"]);
    assert_eq!(json(&["pool", "check", pool])["sound"], true);
    let file = std::fs::File::options().write(true).open(&path).expect("there");
    for at in [40, 4096 + 40] {
        file.write_all_at(&[0x5a; 8], at).expect("broken");
    }
    let said = refused(ferrite().args(["pool", "info", pool]), 1);
    assert!(said.contains("run `ferrite pool check`"), "the others advise it: {said}");
    let said = refused(ferrite().args(["pool", "check", pool]), 1);
    assert!(said.contains("corrupt") && !said.contains("ferrite pool check") && !said.contains("--repair"), "{said}");
    let output = ferrite().args(["pool", "check", pool, "--json"]).output().expect("ferrite runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &report["sound"], &report["opened"]), (Some(1), &false.into(), &false.into()));
}

/// If the user names a missing or sound item to give up, the command reports that it gave up nothing.
#[test]
fn a_name_to_give_up_that_is_wrong_is_told() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "32M"]);
    ok(&["disk", "create", pool, "d", "--size", "1M"]);
    let repair = ["pool", "check", pool, "--repair", "--lose", "d"];
    let said = ok(&repair);
    assert!(said.contains("\"d\": it is readable and was not given up") && said.contains("sound"), "{said}");
    let said = refused(ferrite().args(repair).args(["--lose", "typo"]), 1);
    assert!(said.contains("there is no \"typo\"") && !said.contains("NOT SOUND"), "{said}");
    assert_eq!(json(&["disk", "list", pool]).as_array().map(Vec::len), Some(1));
}

/// If a command's reader has exited, the command ends normally, and a server continues to serve.
#[test]
fn nobody_needs_to_read_what_is_told() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let pool = pool.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "32M"]);
    ok(&["disk", "create", pool, "d", "--size", "1M"]);
    let gone = || std::io::pipe().expect("a pipe").1;
    for words in [&["pool", "info", pool][..], &["pool", "check", pool], &["disk", "list", pool], &["bench", "--list"]]
    {
        let status = ferrite().args(words).stdout(gone()).stderr(gone()).status().expect("ferrite runs");
        assert_eq!(status.code(), Some(0), "{words:?}");
    }
    refused(ferrite().args(["pool", "info", "/nonexistent"]).stdout(gone()), 1);
    for words in [&["up", "--no-attach", "--no-mount", "--pool", pool][..], &["disk", "serve", pool, "d"]] {
        let mut server = ferrite().args(words).stdout(gone()).stderr(gone()).spawn().expect("ferrite starts");
        let serves = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            json(&["pool", "info", pool])["owner_pid"] == server.id()
        });
        assert!(serves, "{words:?}");
        signal(server.id(), "INT");
        assert_eq!(wait(&mut server, std::time::Duration::from_secs(30)), Some(0), "{words:?}");
    }
}

#[test]
fn a_refused_command_changes_nothing_and_leaves_nothing() {
    let folder = folder(false);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, other) = (path("pool"), path("other"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    refused(ferrite().args(["pool", "create", &pool, "--lose", "32M", "--size", "1K"]), 2);
    assert_eq!(std::fs::metadata(&pool).expect("there").len(), 32 << 20, "wrong usage cuts no pool");
    refused(ferrite().args(["pool", "create", &other, "--size", "8388607T"]), 1);
    refused(ferrite().args(["up", "--no-attach", "--pool", &other, "--disk", "a=1M", "--disk", "a=2M"]), 2);
    refused(ferrite().args(["up", "--no-attach", "--pool", &other, "--size", "1K"]), 2);
    refused(ferrite().args(["up", "--no-attach", "--pool", &pool, "--unix", &path("none/socket")]), 1);
    refused(ferrite().args(["disk", "serve", &pool, "nope"]), 1);
    refused(ferrite().args(["disk", "detach", &pool, "nope"]), 1);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "only the pool stays behind: {left:?}");
    let server = Server::start(pool.as_ref(), &["--no-attach"]);
    assert!(!server.lines.join("\n").contains("recovered"), "a failed start closes in order: {:?}", server.lines);
}

/// Other users of the machine cannot read a user's disks.
#[test]
fn a_pool_is_for_its_users_eyes_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (made, image, restored, up) = (path("made"), path("image"), path("restored"), path("up"));
    ok(&["pool", "create", &made, "--size", "32M"]);
    ok(&["pool", "backup", &made, &image]);
    ok(&["pool", "restore", &image, &restored]);
    let server = Server::start(up.as_ref(), &["--no-attach", "--size", "32M"]);
    for file in [&made, &image, &restored, &up, &format!("{up}.nbd"), &format!("{up}.sock")] {
        let mode = std::fs::metadata(file).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}: {mode:o}");
    }
    server.interrupt();
}

/// Paths are bytes. Messages print a path as readably as possible, and commands use the exact bytes.
#[test]
fn a_pool_whose_path_is_no_text_is_served_and_told_of() {
    let folder = folder(true);
    let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    let (pool, image) = (at(b"b\xffx"), at(b"im\xffage"));
    let run_on = |words: &[&str]| run(ferrite().args(words).arg(&pool));
    let told = |words: &[&str]| serde_json::from_str::<serde_json::Value>(&run_on(words)).expect("JSON");
    run(ferrite().args(["pool", "create", "--size", "32M"]).arg(&pool));
    run(ferrite().args(["disk", "create"]).arg(&pool).args(["d", "--size", "1M"]));
    assert!(run_on(&["pool", "info"]).contains("b\u{fffd}x"));
    let mut up = ferrite();
    up.args(["up", "--no-attach", "--no-mount", "--json", "--pool"]).arg(&pool);
    let server = Server::of(&mut up, &pool, "\"disks\"");
    for path in [&server.told()["pool"], &told(&["pool", "info", "--json"])["path"]] {
        assert!(path.as_str().is_some_and(|path| path.ends_with("/b\u{fffd}x")), "{path}");
    }
    run(ferrite().args(["pool", "backup"]).arg(&pool).arg(&image));
    assert!(image.exists(), "the owner writes to the very file that was named");
    server.interrupt();
}

/// A closed descriptor is not an empty input, nor is data written to it delivered. A reader that has exited is not a
/// failure.
#[test]
fn what_is_stored_or_got_by_a_closed_descriptor_is_refused() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (pool, content) = (path("pool"), path("content"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    std::fs::write(&content, vec![b'x'; 1 << 20]).expect("written");
    ok(&["tag", "put", &pool, "t", &content]);
    let shell = |line: &str| {
        let mut shell = client("bash");
        shell.args(["-c", line]).env("FERRITE", ferrite_path()).env("POOL", &pool);
        shell
    };
    let told = refused(&mut shell("\"$FERRITE\" tag put \"$POOL\" t --lose 1M <&-"), 1);
    assert!(told.contains("standard input is closed"), "{told}");
    let told = refused(&mut shell("\"$FERRITE\" tag get \"$POOL\" t >&-"), 1);
    assert!(told.contains("standard output is closed"), "{told}");
    let told = refused(&mut shell("\"$FERRITE\" tag get \"$POOL\" t | head -c 1; exit ${PIPESTATUS[0]}"), 0);
    assert!(told.starts_with('x') && !told.contains("Broken pipe"), "{told}");
    assert_eq!(run(&mut shell("\"$FERRITE\" tag get \"$POOL\" t | wc -c")), "1048576\n");
    run(&mut shell(
        "\"$FERRITE\" tag put \"$POOL\" t --lose 1M <>/dev/null; \"$FERRITE\" tag get \"$POOL\" t 1<>/dev/null",
    ));
    assert_eq!(run(&mut shell("\"$FERRITE\" tag get \"$POOL\" t | wc -c")), "0\n", "an empty file is empty");
}
