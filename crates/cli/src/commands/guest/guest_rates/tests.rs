use std::time::{Duration, Instant};

use super::*;
use crate::commands::guest::tests::usual;
use crate::commands::watch::Watch;

#[test]
fn rates_are_of_the_guest_between_two_looks() {
    let guest = |counts| GuestReport { counts, ..usual() };
    let counts = |promoted_pages, waits| Some(GuestCounts { promoted_pages, waits, ..GuestCounts::default() });
    let (mut watch, begun) = (Watch::new(), Instant::now());
    assert_eq!(watch.look(guest(counts(10, 7)), begun).per_second, None, "one look tells no rate");
    let after = |millis| begun + Duration::from_millis(millis);
    let rates = watch.look(guest(counts(266, 8)), after(500)).per_second.expect("two looks");
    assert_eq!((rates.promoted_pages, rates.waits, rates.disk_flushes), (512.0, 2.0, 0.0));
    assert!(rates.show().contains("2 MiB/s to the pool") && rates.show().contains("2 waits/s"), "{}", rates.show());
    assert_eq!(watch.look(guest(None), after(600)).per_second, None, "it is closed");
    assert_eq!(watch.look(guest(counts(300, 9)), after(700)).per_second, None, "it was opened anew");
    assert_eq!(watch.look(guest(counts(0, 0)), after(800)).per_second, None, "it was opened anew in between");
}
