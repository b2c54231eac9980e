use super::*;

#[test]
fn what_was_passed_once_was_passed_one_time() {
    let shown =
        |count| show_stage("copy", StageCount { count, cycles: 6 }).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((shown(1), shown(2)), ("copy 1 time 6 cycles each".into(), "copy 2 times 3 cycles each".into()));
}
