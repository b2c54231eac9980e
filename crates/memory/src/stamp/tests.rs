use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;

/// The stamp is at most a tick behind the current time.
#[test]
fn a_stamp_is_about_now() {
    let stamp = UNIX_EPOCH + Duration::from_nanos(stamp_ns().try_into().expect("after 1970"));
    let now = SystemTime::now();
    let apart = now.duration_since(stamp).unwrap_or_else(|why| why.duration());
    assert!(apart < Duration::from_secs(600), "{apart:?}");
}
