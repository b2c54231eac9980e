//! The output of `disk stat --watch` for a disk in use.

use std::process::{Child, Stdio};

use serde_json::{Deserializer, Value};

use crate::programs::{client, ferrite};
use crate::server::{Server, folder, ok, run};

/// A `disk stat --watch` process, killed when dropped.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first report has counts alone. Each later report has rates, which show the writes.
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
    let mut watch = ferrite();
    watch.args(["disk", "stat", &pool, "d", "--watch", "--json"]).stdout(Stdio::piped());
    let mut watching = Watching(watch.spawn().expect("it runs"));
    let mut looks = Deserializer::from_reader(watching.0.stdout.take().expect("piped")).into_iter::<Value>();
    let first = looks.next().expect("a look").expect("JSON");
    assert!(first.get("per_second").is_none() && first["open"]["written_bytes"].as_u64() > Some(0), "{first}");
    write();
    let wrote = |look: &Value| look["per_second"]["written_bytes"].as_f64() > Some(0.0);
    let mut shows = looks.by_ref().take(30).map(|look| look.expect("JSON")).inspect(|look| {
        assert!(look["per_second"]["reads"].is_number(), "{look}");
    });
    assert!(shows.any(|look| wrote(&look)), "what is written meanwhile shows in the rates");
    drop(watching);
    server.interrupt();
}
