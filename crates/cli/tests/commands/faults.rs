//! Disks that fail on command.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::{Row, Running, Workshop};

const COPY: &str = "disk copy image nbd+unix:///?socket=socket";

/// Errors begin and end, and a hang is released, while the disk is served.
#[test]
fn an_exported_disk_fails_and_heals_on_command() {
    let workshop = Workshop::with_pool();
    let export = workshop.start("disk export fault:none:pool:d --unix socket", "is served at");
    workshop.ok("disk fault pool pool:d error=space@op=write");
    assert_eq!(workshop.run(COPY).status.code(), Some(1));
    let listed: Value = serde_json::from_str(&workshop.ok("disk fault pool --json")).expect("JSON");
    assert_eq!((&listed[0]["address"], &listed[0]["plan"]), (&"pool:d".into(), &"error=space@op=write".into()));
    let shown = format!("error=space@op=write, {} requests\n", listed[0]["requests"]);
    assert!(workshop.ok("disk fault pool").ends_with(&shown), "{listed}");
    workshop.ok("disk fault pool pool:d hang@op=write");
    let mut copy = Running(workshop.command(COPY).stdout(Stdio::null()).spawn().expect("it starts"));
    std::thread::sleep(Duration::from_millis(300));
    assert!(copy.0.try_wait().expect("looked at").is_none(), "it hangs");
    workshop.assert_rows(&[
        Row(
            "disk fault pool d none",
            1,
            "ferrite: process PID has no open disk behind fault: called \"d\": name one of pool:d",
        ),
        Row("disk fault pool pool:d none", 0, ""),
    ]);
    assert!(copy.0.wait().expect("waited").success());
    assert_eq!(export.interrupt(), Some(0));
    workshop.assert_rows(&[Row(
        "disk fault pool pool:d none",
        1,
        "ferrite: process PID has no open disk behind fault:",
    )]);
}
