use super::*;

#[test]
fn a_wait_ends_in_time_where_looks_are_slow() {
    let mut looks = 0;
    let slow = || {
        looks += 1;
        sleep(Duration::from_millis(20));
        false
    };
    assert!(!comes_within(Duration::from_millis(100), slow));
    assert!((1..=6).contains(&looks), "{looks} looks");
    assert!(comes_within(Duration::ZERO, || true));
}
