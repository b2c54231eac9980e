use super::*;

#[test]
fn it_is_out_when_it_is_dropped() {
    let words = SharedWords::<0>::new(8).expect("memory");
    let liveness = LivenessWord::set(&words, 0).expect("lit");
    assert!(LivenessWord::is_alive(words.word(0)));
    drop(liveness);
    assert!(!LivenessWord::is_alive(words.word(0)));
}

#[test]
fn it_is_out_when_its_process_is_killed() {
    let words = SharedWords::<0>::new(8).expect("memory");
    let (mut go, mut came) = (0, [0_i32; 2]);
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(came.as_mut_ptr()) }, 0);
    // SAFETY: the child makes a thread and waits; it allocates in a process whose other threads are gone, which glibc
    // allows. It never returns.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let liveness = LivenessWord::set(&words, 0);
        let lit = liveness.is_ok();
        // SAFETY: one byte of a live value; pause and _exit take no pointer.
        unsafe {
            libc::write(came[1], (&raw const lit).cast(), 1);
            libc::pause();
            libc::_exit(0);
        }
    }
    // SAFETY: reads one byte into a live value; the other calls take only the pointer to a live status.
    unsafe {
        assert_eq!(libc::read(came[0], (&raw mut go).cast(), 1), 1);
        assert!(LivenessWord::is_alive(words.word(0)));
        libc::kill(child, libc::SIGKILL);
        let mut status: i32 = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::close(came[0]);
        libc::close(came[1]);
    }
    assert!(!LivenessWord::is_alive(words.word(0)), "the kernel marks it");
}
