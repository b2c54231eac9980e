//! How the command line answers right and wrong words.

use crate::programs::ferrite;
use crate::server::{folder, json, ok, refused, run, signal, wait};

#[test]
fn help_is_no_error_and_wrong_words_are_wrong_usage() {
    run(ferrite().arg("--help"));
    for command in ["up", "pool", "tag", "disk", "bench"] {
        assert!(run(ferrite().args([command, "--help"])).len() > 200, "{command} --help teaches");
    }
    refused(ferrite().arg("nonsense"), 2);
    refused(ferrite().args(["disk", "create", "p", "n", "--size", "ten"]), 2);
    refused(ferrite().args(["up", "--disk", "nosize"]), 2);
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
    assert!(refused(ferrite().args(["pool", "create", pool, "--size", "32M"]), 1).contains("--force"));
    ok(&["disk", "create", pool, "d", "--size", "1M"]);
    for wrong in [["--guard", "magic"], ["--scheme", "fast"]] {
        assert!(refused(ferrite().args(["disk", "serve", pool, "d"]).args(wrong), 2).contains(wrong[1]));
    }
    for wrong in
        [&["--buffers", "2"][..], &["--guard", "buffered", "--high", "2"], &["--guard", "buffered", "--buffers", "0"]]
    {
        refused(ferrite().args(["disk", "serve", pool, "d"]).args(wrong), 2);
    }
    assert!(refused(ferrite().args(["disk", "create", pool, "d", "--size", "1M"]), 1).contains("already"));
    assert!(refused(ferrite().args(["disk", "create", pool, "e", "--size", "1G"]), 1).contains("full"));
    assert!(refused(ferrite().args(["disk", "resize", pool, "d", "--size", "512K"]), 1).contains("only grow"));
    assert!(refused(ferrite().args(["disk", "stat", pool, "x"]), 1).contains("no tag called \"x\""));
}

/// A command whose reader has gone ends as if it had not, and a server serves on.
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
    for words in [&["up", "--no-attach", "--pool", pool][..], &["disk", "serve", pool, "d"]] {
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
    refused(ferrite().args(["pool", "create", &pool, "--force", "--size", "1K"]), 2);
    assert_eq!(std::fs::metadata(&pool).expect("there").len(), 32 << 20, "wrong usage cuts no pool");
    refused(ferrite().args(["pool", "create", &other, "--size", "9999999T"]), 1);
    refused(ferrite().args(["up", "--no-attach", "--pool", &other, "--disk", "a=1M", "--disk", "a=2M"]), 2);
    refused(ferrite().args(["up", "--no-attach", "--pool", &other, "--size", "1K"]), 2);
    refused(ferrite().args(["up", "--no-attach", "--pool", &pool, "--unix", &path("none/socket")]), 1);
    refused(ferrite().args(["disk", "serve", &pool, "nope"]), 1);
    refused(ferrite().args(["disk", "detach", &pool, "nope"]), 1);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "only the pool stays behind: {left:?}");
    let server = crate::server::Server::start(pool.as_ref(), &["--no-attach"]);
    assert!(!server.lines.join("\n").contains("recovered"), "a failed start closes in order: {:?}", server.lines);
}

/// Other users of the machine may not read what is in somebody's disks.
#[test]
fn a_pool_is_for_its_users_eyes_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (made, image, restored, up) = (path("made"), path("image"), path("restored"), path("up"));
    ok(&["pool", "create", &made, "--size", "32M"]);
    ok(&["pool", "backup", &made, &image]);
    ok(&["pool", "restore", &image, &restored]);
    let server = crate::server::Server::start(up.as_ref(), &["--no-attach", "--size", "32M"]);
    for file in [&made, &image, &restored, &up, &format!("{up}.nbd"), &format!("{up}.sock")] {
        let mode = std::fs::metadata(file).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}: {mode:o}");
    }
    server.interrupt();
}
