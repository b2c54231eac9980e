//! Ignored signals: `ferrite` and its child processes inherit the signal settings of the parent process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::programs::{client, ferrite_path};
use crate::server::{Server, folder, json, run, signal};

/// Returns a command for `program` whose parent ignores `signals`.
fn ignoring(signals: &str, program: &Path) -> Command {
    let mut shell = client("sh");
    shell.args(["-c", &format!("trap '' {signals}; exec \"$@\""), "-"]).arg(program);
    shell
}

/// `nohup` and a script's `&` start servers like this: closing a terminal does not end the server.
#[test]
fn a_signal_that_is_ignored_ends_nothing() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let mut up = ignoring("HUP INT QUIT", &ferrite_path());
    up.args(["up", "--no-attach", "--no-mount", "--size", "64M", "--pool"]).arg(&path);
    let server = Server::of(&mut up, &path, "Ctrl-C ends it.");
    ["HUP", "INT", "QUIT"].iter().for_each(|name| signal(server.pid(), name));
    std::thread::sleep(Duration::from_millis(500));
    let report = json(&["pool", "info", path.to_str().expect("text")]);
    assert_eq!(report["owner_pid"], server.pid(), "{report}");
    signal(server.pid(), "TERM");
    assert_eq!(server.ended(), Some(0));
}

/// Returns the mask of the signals that `command` ignores, as the kernel reports it. Omits the signals that the C
/// library reserves.
fn ignored(command: &mut Command) -> u64 {
    let report = run(command.args(["grep", "SigIgn", "/proc/self/status"]));
    let mask = report.trim().trim_start_matches("SigIgn:").trim();
    u64::from_str_radix(mask, 16).unwrap_or_else(|_| panic!("{report}")) & 0x7fff_ffff
}

/// Under `ferrite run`, a program inherits the same signal settings as without it.
#[test]
fn what_a_program_ignores_it_ignores_under_run() {
    for signals in ["HUP", "INT QUIT", "PIPE", "USR1"] {
        let plain = ignored(&mut ignoring(signals, Path::new("env")));
        for more in [&["run", "--"][..], &["run", "--stat", "--"]] {
            let report = ignored(ignoring(signals, &ferrite_path()).args(more));
            assert_eq!(report, plain, "{signals} {more:?}: {report:x} {plain:x}");
        }
    }
}
