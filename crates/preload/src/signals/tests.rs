use super::*;

#[test]
fn ld5_no_signal_comes_meanwhile_but_for_what_the_thread_does_itself() {
    let before = block();
    let held = block();
    restore(&before);
    let comes = |signal| !has(&held, signal);
    let own = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSYS];
    assert!(own.into_iter().all(comes));
    assert!(![libc::SIGUSR1, libc::SIGALRM, libc::SIGTERM].into_iter().any(comes));
}
