use super::*;

#[test]
fn every_name_means_the_policy_that_has_it() {
    let numbers = PolicyDefaults::of(16);
    for name in ["lru", "protect-0", "protect-4", "partitioned-4x4", "partitioned-2x8-protect-3", "worth"] {
        assert_eq!(numbers.choice(name).expect(name).name(16), name);
    }
    assert_eq!(numbers.choice("protect").expect("named").name(16), "protect-4");
    assert_eq!(numbers.choice("partitioned").expect("named").name(16), "partitioned-4x4");
    assert_eq!(PolicyDefaults { protected: 0, ..numbers }.partitioned().name(16), "partitioned-4x4-protect-0");
    assert_eq!(
        PolicyDefaults { protected: 3, ..numbers }.partitioned().name(16),
        "partitioned-4x4",
        "one is the least"
    );
    let of_one = PolicyDefaults { partitions: 16, ..numbers }.choice("partitioned").expect("named");
    assert_eq!(of_one.name(16), "partitioned-16x1-protect-0", "of one way none can be protected");
    assert_eq!(numbers.choice("partitioned-16x1").expect("named"), of_one);
    assert_eq!(PolicyDefaults::of(8).choice("protect").expect("named").name(8), "protect-2");
}

#[test]
fn what_is_no_policy_of_this_cache_is_refused() {
    let wrong = [
        "",
        "mru",
        "protect-17",
        "protect-x",
        "partitioned-3x5",
        "partitioned-4x8",
        "partitioned-4x4-protect-4",
        "partitioned-16x1-protect-1",
    ];
    for name in wrong {
        assert!(PolicyDefaults::of(16).choice(name).is_err(), "{name}");
    }
}
