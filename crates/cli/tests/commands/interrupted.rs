//! Ctrl-C.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use super::{Row, Running, Workshop};

/// A server ends in order at the first Ctrl-C, so the next opening has nothing to recover.
#[test]
fn a_server_ends_in_order_at_ctrl_c() {
    let workshop = Workshop::with_pool();
    let servers = [
        ("up --pool pool --no-attach --no-mount", "Ctrl-C ends it."),
        ("disk serve pool d", "nbd+unix"),
        ("disk export image --unix socket", "is served at"),
        ("disk export ftl-page:pool:d --unix socket", "is served at"),
    ];
    for (line, ready) in servers {
        assert_eq!(workshop.start(line, ready).interrupt(), Some(0), "{line}");
        assert!(!workshop.has("socket") && !workshop.has("pool.nbd"), "{line} leaves no socket");
    }
    let next = workshop.start("up --pool pool --no-attach --no-mount --json", "\"recovered\":false");
    assert_eq!(next.interrupt(), Some(0));
    workshop.assert_rows(&[Row("down pool", 1, "ferrite: no process serves pool: there is nothing to end")]);
}

/// Returns true once the process `pid` catches SIGINT.
fn catches_interrupt(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigCgt:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (Signal::INT.as_raw() - 1) != 0)
}

/// An interrupted copy fails, and leaves no part of a disk that a script would take for the whole one.
#[test]
fn an_interrupted_copy_fails_and_leaves_nothing() {
    let workshop = Workshop::new();
    workshop.ok("pool create pool --size 128M");
    std::fs::write(workshop.0.path().join("image"), vec![7; 64 << 20]).expect("written");
    for to in ["copy", "pool:e"] {
        // A simulated hard disk takes about a second for this.
        let mut copy = workshop.command(&format!("disk copy hdd-5400:image {to}"));
        let copy = Running(copy.stderr(Stdio::piped()).spawn().expect("it starts"));
        while !catches_interrupt(copy.0.id()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(copy.interrupt(), Some(1), "{to}");
        assert!(!workshop.has("copy") && !workshop.ok("tag list pool").contains("\ne "), "{to}");
    }
    assert!(workshop.ok("pool check pool").contains("sound"));
}
