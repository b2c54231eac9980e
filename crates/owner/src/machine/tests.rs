use super::*;

#[test]
fn what_is_missing_is_named() {
    let said = uuid("/proc/none").expect_err("there is none").to_string();
    assert!(said.starts_with("reading /proc/none: No such file"), "{said}");
}

#[test]
fn the_boot_stays_and_random_numbers_differ() {
    assert_eq!(boot_id().expect("read"), boot_id().expect("read"));
    assert_ne!(random_uuid().expect("read"), random_uuid().expect("read"));
    assert_ne!(random(), random());
}
