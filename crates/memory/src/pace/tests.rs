use super::*;

#[test]
fn every_preset_can_be_emulated_and_says_what_it_is() {
    for (name, pace) in Pace::PRESETS {
        pace.check().unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(Pace::from_name(name), Some(pace));
    }
    let describe = |name| Pace::from_name(name).unwrap().to_string();
    assert_eq!(describe("pcm"), "reads 1.42x DRAM; writes 16.7x DRAM");
    assert_eq!(describe("optane"), "reads 305 ns, 6600 MB/s; writes 90 ns, 2300 MB/s");
    assert_eq!(describe("dram"), "reads as DRAM; writes as DRAM");
    assert_eq!(Pace::from_name("flash"), None);
}

#[test]
fn what_cannot_be_emulated_is_refused_with_its_reason() {
    let nan = Speed::relative(f64::NAN);
    let late = Speed { latency_ns: LATENCY_MAX_NS + 1, ..Speed::DRAM };
    for (speed, describe) in [
        (Speed::relative(0.5), "0.5 times"),
        (Speed::relative(f64::INFINITY), "inf times"),
        (nan, "NaN times"),
        (late, "10000000001 ns"),
        (Speed::absolute(1, 0), "0 MB/s"),
    ] {
        let read = Pace { read: speed, ..Pace::default() }.check().unwrap_err().to_string();
        assert!(read.contains("reads") && read.contains(describe), "{read}");
        let write = Pace { write: speed, ..Pace::default() }.check().unwrap_err().to_string();
        assert!(write.contains("writes") && write.contains(describe), "{write}");
    }
}

#[test]
fn latency_and_bandwidth_add_up() {
    assert_eq!(Speed::absolute(100, 1000).absolute_ns(4096), 4196.0);
    assert_eq!(Speed::relative(7.0).absolute_ns(4096), 0.0);
}
