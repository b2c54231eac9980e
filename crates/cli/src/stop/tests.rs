use super::*;

/// SIGTERM still ends a process whose parent ignored it.
#[test]
fn what_is_ignored_is_not_caught_but_for_sigterm() {
    let all = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];
    let of = |status: &str| caught_of(&all, status);
    assert_eq!(of("Name:\tferrite\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n"), all[..3]);
    assert_eq!(of("SigIgn:\t0000000000004006\n"), [SIGTERM, SIGHUP]);
    assert_eq!(of(""), all);
}

#[test]
fn signals_one_after_another_are_one_wish() {
    let (mut wish, began) = (Wish::default(), Instant::now());
    let at = |ms| began + Duration::from_millis(ms);
    let new: Vec<u64> = [0, 1, 250, 320, 500, 900].into_iter().filter(|ms| wish.is_new(at(*ms))).collect();
    assert_eq!(new, [0, 320, 900], "a user who presses Ctrl-C all the time is heard");
}
