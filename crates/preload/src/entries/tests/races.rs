//! Threads that change the same descriptors, in a given order: the changes of one thread run inside another thread's kernel
//! call.

use std::sync::mpsc::channel;

use super::*;
use crate::closing_fd::fd_gate::{FdGate, MOST};
use crate::leased_file::wait_briefly;

/// Returns true if the number of `opened` has the entry of `it`.
fn stands(it: &Opened, opened: &Opened) -> bool {
    fd_table::held(opened.fd()).is_some_and(|found| Arc::ptr_eq(&found, &it.it))
}

/// Makes `to` a copy of `from`; the first closure runs before and the second after the kernel does it.
fn dup2(from: &Opened, to: &Opened, amid: impl FnOnce(), behind: impl FnOnce()) {
    let done = replaced(from.fd(), to.fd(), || {
        amid();
        let done = to.replace_by(from);
        behind();
        done
    });
    assert_eq!(done, to.fd());
}

fn nothing() {}

fn only(is_so: bool, work: impl FnOnce()) {
    if is_so {
        work();
    }
}

/// The kernel has another file under the number by then, or had one during the call.
#[test]
fn ld3_what_is_replaced_by_what_is_itself_replaced_meanwhile_is_the_kernels() {
    for is_changed_back in [false, true] {
        let [log, old, next, to] = [(); 4].map(|()| Opened::new());
        dup2(&old, &log, nothing, nothing);
        let change = || dup2(&next, &log, nothing, nothing);
        let change_back = || only(is_changed_back, || dup2(&old, &log, nothing, nothing));
        dup2(&log, &to, change, change_back);
        assert!(stands(if is_changed_back { &old } else { &next }, &log), "by itself it is known");
        assert!(fd_table::has(to.fd()) && ![&old, &next, &to].iter().any(|it| stands(it, &to)), "{is_changed_back}");
    }
}

/// The call has nothing to do, unless another thread changes something.
#[test]
fn ld3_a_copy_that_is_made_anew_of_what_is_replaced_meanwhile_is_the_kernels() {
    let [log, next, to] = [(); 3].map(|()| Opened::new());
    dup2(&log, &to, nothing, nothing);
    dup2(&log, &to, nothing, nothing);
    assert!(stands(&log, &to) && log.it.seek(0, libc::SEEK_CUR).is_none());
    dup2(&log, &to, || dup2(&next, &log, nothing, nothing), nothing);
    assert!(stands(&next, &log) && fd_table::has(to.fd()) && !stands(&log, &to) && !stands(&next, &to));
    let [strange, ours, to] = [(); 3].map(|()| Opened::new());
    [&strange, &to].iter().for_each(|it| drop(fd_table::take(it.fd())));
    dup2(&strange, &to, || dup2(&ours, &strange, nothing, nothing), nothing);
    assert!(fd_table::has(to.fd()) && !stands(&ours, &to), "the kernel asks for its size (LD7)");
}

/// The thread that returns from the kernel last does not know which of both was last in it.
#[test]
fn ld3_what_two_threads_replace_or_close_at_once_is_the_kernels() {
    let closes = |to: &Opened| assert_eq!(left(to.fd(), || 0), 0);
    let is_known = |a: &Opened, b: &Opened, to: &Opened| [a, b, to].iter().any(|it| stands(it, to));
    for is_before in [true, false] {
        let [a, b, to] = [(); 3].map(|()| Opened::new());
        let other = || dup2(&b, &to, nothing, nothing);
        dup2(&a, &to, || only(is_before, other), || only(!is_before, other));
        assert!(fd_table::has(to.fd()) && !is_known(&a, &b, &to));
        let to = Opened::new();
        dup2(&a, &to, || only(is_before, || closes(&to)), || only(!is_before, || closes(&to)));
        assert!(fd_table::has(to.fd()) && !is_known(&a, &b, &to), "a number that is closed is not known either");
    }
    let [a, b, to] = [(); 3].map(|()| Opened::new());
    left(to.fd(), || {
        dup2(&a, &to, nothing, nothing);
        0
    });
    assert!(!is_known(&a, &b, &to));
    dup2(&a, &to, nothing, nothing);
    assert!(stands(&a, &to), "alone again");
}

/// A call that has claimed a place by the number ends before any thread that replaces it calls the kernel.
#[test]
fn ld3_of_two_threads_that_replace_a_descriptor_both_wait_for_what_was_begun_by_it() {
    let [a, b, to] = [(); 3].map(|()| Opened::new());
    assert!(to.it.become_standard(to.fd()));
    let (first_is_there, has_first_come) = channel();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let begun = fd_table::held(to.fd());
        scope.spawn(|| {
            first_is_there.send(()).expect("the test listens");
            dup2(&a, &to, || assert!(is_done.load(Ordering::SeqCst), "the first"), nothing);
        });
        let is_shut = || fd_table::held(to.fd()).is_some_and(|it| it.is_gate());
        has_first_come.recv().expect("it begins");
        assert!((0..100).any(|_| wait_briefly(is_shut)));
        scope.spawn(|| dup2(&b, &to, || assert!(is_done.load(Ordering::SeqCst), "the second"), nothing));
        thread::sleep(Duration::from_millis(3));
        is_done.store(true, Ordering::SeqCst);
        drop(begun);
    });
}

/// Of two appends by one descriptor the later one counts, also if the kernel appends parts.
#[test]
fn ld2_parts_that_are_appended_by_the_kernel_move_the_offset_beside_other_appends() {
    let (log, is_over) = (Opened::log(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                log.append_as_directly();
            }
        });
        let is_behind = |_: &usize| {
            log.write_twice(&[1; 3000]);
            log.it.seek(0, libc::SEEK_CUR) < u64::try_from(real::moved(log.fd(), 0, libc::SEEK_CUR)).ok()
        };
        let behind = (0..4000).filter(is_behind).count();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(behind, 0);
    });
}

/// The kernel's offset is then right for the source, too.
#[test]
fn ld2_where_too_many_calls_are_under_way_all_of_them_leave_offsets_to_the_kernel() {
    let [a, to] = [(); 2].map(|()| Opened::new());
    assert!(in_copy(|| {
        fd_table::put(a.fd(), Arc::clone(&a.it));
        a.write(b"0123");
        let others: Vec<_> = (0..=MOST as u32).map(|at| FdGate::over(9000 + at, 9000 + at)).collect();
        let copy = Opened { file: a.file.try_clone().expect("copied"), it: Arc::clone(&a.it) };
        copied(a.fd(), || copy.fd());
        a.write(b"45");
        copy.write(b"67");
        dup2(&a, &to, nothing, nothing);
        let is_left = content(a.again()) == "01234567" && !stands(&a, &to);
        drop(others);
        dup2(&a, &to, nothing, nothing);
        is_left && stands(&a, &to)
    }));
}
