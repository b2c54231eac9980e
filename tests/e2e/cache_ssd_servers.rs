//! SSDs of a cache that another program serves by NBD: it fails, stops, dies and comes back.

use std::time::Duration;

use crate::cache_setup::{
    CachedDisk, DISK_BYTES, KEEPS_DIRTY, SSD_BYTES, ServedSsd, ended, longest, number, sized, started,
};
use crate::server::{folder, json, run, signal};

/// A cache whose SSDs nbdkit serves.
struct RemoteSsds {
    cached: CachedDisk,
    ssds: [ServedSsd; 2],
}

impl RemoteSsds {
    fn serve(more: &[&str]) -> Self {
        let folder = folder(true);
        let disk = sized(&folder, "disk", DISK_BYTES);
        let ssds = ["s0", "s1"].map(|name| ServedSsd::start(sized(&folder, name, SSD_BYTES).as_ref()));
        let addresses = ssds.each_ref().map(ServedSsd::address);
        Self { cached: CachedDisk::of(folder, "c", &disk, &addresses, more).serve(), ssds }
    }
}

/// CA5: an SSD whose requests all fail is left, and nothing is lost.
#[test]
fn an_ssd_whose_server_fails_each_request_loses_nothing() {
    let RemoteSsds { mut cached, ssds } = RemoteSsds::serve(&[]);
    let fio = started(&mut cached.verifying("150M"));
    std::thread::sleep(Duration::from_millis(700));
    ssds[1].fail();
    ended(fio);
    let stat = cached
        .await_stat("nothing is single", |stat| stat["ssds"][1]["state"] == "failed" && stat["bytes"]["single"] == 0);
    let why = stat["ssds"][1]["why"].as_str();
    assert!(why.is_some_and(|why| why.contains("Input/output error")), "{stat}");
    assert_eq!(number(&stat["bytes"]["lost"]), 0, "{stat}");
    cached.assert_sound();
    cached.server().interrupt();
}

/// A stopped SSD holds its clients up for the time limit. When it goes on, it can be used again with its content. A
/// server ends although an SSD is stopped.
#[test]
fn an_ssd_whose_server_stops_delays_no_client_for_long() {
    let RemoteSsds { mut cached, ssds } = RemoteSsds::serve(&["--ssd-timeout", "2s"]);
    let fio = started(&mut cached.verifying("150M"));
    std::thread::sleep(Duration::from_millis(700));
    signal(ssds[1].pid(), "STOP");
    let longest = longest(&ended(fio));
    assert!(longest < Duration::from_secs(15), "{longest:?}");
    let stat = cached.await_stat("it has failed", |stat| stat["ssds"][1]["state"] == "failed");
    assert_eq!(number(&stat["bytes"]["lost"]), 0, "{stat}");
    signal(ssds[1].pid(), "CONT");
    // Requests that were waited for no more have to end first.
    let online = || crate::programs::ferrite().args(["cache", "online", &cached.pool, "c", "1"]).output();
    let is_back = |_| online().is_ok_and(|output| output.status.success()) || (pause(), false).1;
    assert!((0..100).any(is_back), "{:?}", online());
    run(&mut cached.verifying("32M"));
    cached.assert_sound();
    cached.server().interrupt();
}

fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

/// CA11: an SSD that is back within the grace has all that it held: no page was copied or written to the disk for it, and
/// no read misses.
#[test]
fn an_ssd_whose_server_is_killed_and_started_again_comes_back_with_its_content() {
    let RemoteSsds { mut cached, ssds: [_first, second] } = RemoteSsds::serve(&KEEPS_DIRTY);
    run(&mut cached.writing("512M", "40M", 1));
    cached.await_stat("it is on SSDs", |stat| number(&stat["bytes"]["buffered"]) < 2 << 20);
    let before = cached.stat();
    drop(second);
    run(&mut cached.checking("512M", "40M", 1));
    let stat = cached.await_stat("it is missing", |stat| stat["ssds"][1]["state"] == "missing");
    assert!(number(&stat["bytes"]["single"]) > 32 << 20, "{stat}");
    let _second = ServedSsd::start(&cached.path("s1"));
    let stat = cached.await_stat("it is back", |stat| stat["ssds"][1]["state"] == "online");
    let traffic = |stat: &serde_json::Value| [&stat["collect"]["repaired"], &stat["misses"]].map(number);
    assert_eq!(traffic(&stat), traffic(&before), "{stat}");
    assert!(number(&stat["destage"]["pages"]) < 1024, "only what was in buffers went to the disk: {stat}");
    let read_bytes = number(&stat["ssds"][1]["read_bytes"]);
    run(&mut cached.checking("512M", "40M", 1));
    let stat = cached.stat();
    assert!(number(&stat["ssds"][1]["read_bytes"]) > read_bytes, "it is read: {stat}");
    assert_eq!([&stat["misses"], &stat["bytes"]["single"], &stat["bytes"]["lost"]].map(number), [0; 3], "{stat}");
    let set = json(&["cache", "set", &cached.pool, "c", "--destage-rate", "auto"]);
    assert_eq!(set["ssds_online"], 2, "{set}");
    cached.assert_sound();
    cached.server().interrupt();
}
