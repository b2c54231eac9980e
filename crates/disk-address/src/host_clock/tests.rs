use super::*;

/// A wait never ends early, whether it sleeps or spins: a simulated disk would be faster than its profile.
#[test]
fn a_wait_is_never_short() {
    let clock = HostClock::new();
    for wait_ns in [0, 1, 30_000, 2_000_000] {
        let until_ns = clock.now_ns() + wait_ns;
        clock.wait_until_ns(until_ns);
        assert!(clock.now_ns() >= until_ns);
    }
    let now_ns = clock.now_ns();
    clock.wait_until_ns(now_ns / 2);
}
