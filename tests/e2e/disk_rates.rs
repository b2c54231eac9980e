//! The output of `disk stat --watch` for a disk in use.

use std::process::{Child, ChildStdout, Stdio};

use serde_json::de::IoRead;
use serde_json::{Deserializer, StreamDeserializer, Value};

use crate::programs::{client, ferrite};
use crate::server::{Server, folder, ok, run};

/// A command with `--watch --json`, killed when dropped.
pub struct Watching {
    child: Child,
    reports: StreamDeserializer<'static, IoRead<ChildStdout>, Value>,
}

impl Watching {
    /// Starts the command of `words`.
    pub fn of(words: &[&str]) -> Self {
        let mut command = ferrite();
        command.args(words).args(["--watch", "--json"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let reports = Deserializer::from_reader(child.stdout.take().expect("piped")).into_iter();
        Self { child, reports }
    }

    /// Returns the next report.
    pub fn look(&mut self) -> Value {
        self.reports.next().expect("a report").expect("JSON")
    }

    /// Asserts that the command ends well, whose pool's owner has ended.
    fn assert_ends_well(&mut self) {
        assert!(self.reports.all(|report| report.is_ok()), "whole reports to the end");
        assert_eq!(self.child.wait().expect("ended").code(), Some(0));
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first report has counts alone. Each later report has rates, which show the writes. The end of the pool's owner is
/// the end of a watch and no failure.
#[test]
fn a_watched_disk_has_rates() {
    let folder = folder(true);
    let pool = folder.path().join("pool").display().to_string();
    ok(&["pool", "create", &pool, "--size", "64M"]);
    ok(&["disk", "create", &pool, "d", "--size", "8M"]);
    let server = Server::start_as_program(&["disk", "serve", &pool, "d"]);
    let uri = server.told()["disks"][0]["uris"][0].as_str().expect("an address").to_owned();
    let write = || run(client("qemu-io").args(["-f", "raw", "-c", "write -P 7 0 1M", &uri]));
    write();
    let mut watching = Watching::of(&["disk", "stat", &pool, "d"]);
    let first = watching.look();
    assert!(first.get("per_second").is_none() && first["open"]["written_bytes"].as_u64() > Some(0), "{first}");
    write();
    let wrote = |look: &Value| look["per_second"]["written_bytes"].as_f64() > Some(0.0);
    let mut looks = (0..30).map(|_| watching.look()).inspect(|look| {
        assert!(look["per_second"]["reads"].is_number(), "{look}");
    });
    assert!(looks.any(|look| wrote(&look)), "what is written meanwhile shows in the rates");
    let mut of_all = Watching::of(&["stat", &pool]);
    of_all.look();
    server.interrupt();
    [watching, of_all].iter_mut().for_each(Watching::assert_ends_well);
}
