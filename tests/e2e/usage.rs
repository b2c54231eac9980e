//! How the command line answers right and wrong words.

use crate::programs::ferrite;
use crate::server::{folder, ok, refused, run};

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
