use std::time::{Duration, Instant};

use super::*;
use crate::commands::watch::Watch;

fn disk(reads: u64, written_bytes: u64) -> DiskReport {
    let open = serde_json::json!({
        "in_use": true, "serving": ferrite_daemon::disks::Serving::default(), "used_bytes": 0, "unsaved_bytes": null,
        "stages": null, "volatile_cache": false, "reads": reads, "read_bytes": reads * 512, "writes": 4,
        "written_bytes": written_bytes, "flushes": 3, "fua": reads, "trims": 0, "zeroings": 0, "errors": 0,
    });
    let disk = serde_json::json!({
        "name": "d", "size_bytes": 0, "sector_bytes": 512, "thin": false, "checksum": false, "space_bytes": 0,
        "reached_at": [], "open": open,
    });
    serde_json::from_value(disk).expect("a report")
}

#[test]
fn rates_are_of_the_time_between_two_looks() {
    let (mut watch, begun) = (Watch::new(), Instant::now());
    assert_eq!(watch.look(disk(10, 0), begun).per_second, None, "one look tells no rate");
    let then = begun + Duration::from_millis(500);
    let rates = watch.look(disk(30, 1 << 20), then).per_second.expect("two looks");
    let expected = Rates { reads: 40.0, read_bytes: 20_480.0, writes: 0.0, written_bytes: 2_097_152.0, durable: 40.0 };
    assert_eq!(rates, expected);
    assert_eq!(rates.show(), "  now 40 reads/s of 20 KiB/s, 0 writes/s of 2 MiB/s, 40 flushes/s\n");
    let anew = watch.look(disk(5, 0), then + Duration::from_secs(1));
    assert_eq!(anew.per_second, None, "it was opened anew");
    let idle = watch.look(disk(5, 0), then + Duration::from_secs(2)).per_second.expect("two looks");
    assert_eq!((idle.reads, idle.durable), (0.0, 0.0));
}
