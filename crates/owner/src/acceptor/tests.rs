use super::may_come_in;

#[test]
fn o3_only_the_same_user_or_root_comes_in() {
    assert!(may_come_in(1000, 1000) && may_come_in(1000, 0) && may_come_in(0, 0));
    assert!(!may_come_in(1000, 1001) && !may_come_in(0, 1000));
}
