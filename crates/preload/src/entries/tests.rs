//! Calls as a program makes them, on a file without a direct owner.
#![allow(unsafe_code, reason = "calls them as a program does")]

mod races;

use std::ffi::{c_int, c_void};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Once};
use std::time::Duration;
use std::{io, ptr, thread};

use libc::iovec;

use super::descriptors::{copied, left, replaced};
use super::prepared_calls::clone_with;
use super::{file_size, new_fds, raw_syscall, read_write, threads, vectors};
use crate::description::{Description, FEW};
use crate::ferrite_mounts::FerriteMount;
use crate::leased_file::LeasedFile;
use crate::{deferred_drop, fd_table, known_files, real, reentrancy};

/// An open file with an entry in the table.
struct Opened {
    file: fs::File,
    it: Arc<Description>,
}

/// Creates the table of descriptors, as the loading of the library does.
pub fn make_table() {
    static TABLE: Once = Once::new();
    TABLE.call_once(fd_table::make);
}

impl Opened {
    fn new() -> Self {
        Self::of(tempfile::tempfile().expect("a file"), libc::O_RDWR)
    }

    /// Returns an open file that appends.
    fn log() -> Self {
        let file = tempfile::Builder::new().append(true).tempfile().expect("a file");
        Self::of(file.into_file(), libc::O_RDWR | libc::O_APPEND)
    }

    fn of(file: fs::File, flags: c_int) -> Self {
        make_table();
        let known = Arc::new(LeasedFile::new(Arc::new(FerriteMount::nowhere()), 1, false));
        let it = Arc::new(Description::new(known, flags));
        fd_table::put(file.as_raw_fd(), Arc::clone(&it));
        Self { file, it }
    }

    fn fd(&self) -> c_int {
        self.file.as_raw_fd()
    }

    /// Writes `bytes` at the offset.
    fn write(&self, bytes: &[u8]) {
        // SAFETY: bytes of ours.
        assert_eq!(unsafe { read_write::write(self.fd(), bytes.as_ptr().cast(), bytes.len()) }, bytes.len() as isize);
    }

    /// Writes `bytes` in two parts.
    fn write_twice(&self, bytes: &[u8]) {
        let part = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: bytes of ours.
        let written = unsafe { vectors::writev(self.fd(), [part; 2].as_ptr(), 2) };
        assert_eq!(written, 2 * bytes.len() as isize);
    }

    /// Appends without waiting, as with a lease.
    fn append_as_directly(&self) {
        let path = format!("/proc/self/fd/{}", self.fd());
        let mut log = fs::File::options().append(true).open(path).expect("opened again");
        let before = self.it.seek(0, libc::SEEK_CUR).expect("ours");
        io::Write::write_all(&mut log, b"short").expect("written");
        let end = io::Seek::stream_position(&mut log).expect("told");
        self.it.arrives(self.fd(), before, end);
    }

    /// Opens the current file again.
    fn again(&self) -> fs::File {
        fs::File::open(format!("/proc/self/fd/{}", self.fd())).expect("opened again")
    }

    /// Makes its number a copy of `other`, by the kernel.
    fn replace_by(&self, other: &Self) -> c_int {
        // SAFETY: no pointer is passed.
        unsafe { real::dup2(other.fd(), self.fd()) }
    }

    /// Writes and reads `len` bytes at the offset, in one part and in `parts`.
    fn use_offset(&self, parts: usize) {
        let mut room = vec![1_u8; parts];
        let listed: Vec<_> =
            room.iter_mut().map(|byte| iovec { iov_base: (&raw mut *byte).cast(), iov_len: 1 }).collect();
        let (first, count) = (listed.as_ptr(), parts as c_int);
        // SAFETY: each part is a byte of ours, and so is the first by itself.
        let done = unsafe {
            [
                read_write::write(self.fd(), listed[0].iov_base, 1),
                vectors::writev(self.fd(), first, count),
                read_write::read(self.fd(), listed[0].iov_base, 1),
                vectors::readv(self.fd(), first, count),
            ]
        };
        assert_eq!(done[..2], [1, parts as isize]);
        assert!(done[2] >= 0 && done[3] >= 0, "{done:?}");
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        drop(fd_table::take(self.fd()));
    }
}

/// A lease that is requested without effect counts as refused.
#[test]
fn no_lease_is_asked_for_where_nothing_is_tried_directly() {
    let opened = Opened::new();
    opened.use_offset(3);
    assert_eq!(opened.it.file.calls.load(Ordering::Relaxed), 4, "tried, as the offset is here");
    assert!(opened.it.become_standard(opened.fd()));
    let before = opened.it.file.calls.load(Ordering::Relaxed);
    opened.use_offset(3);
    assert_eq!(opened.it.file.calls.load(Ordering::Relaxed) - before, 2, "of standard output by one part only");
    opened.it.surrender(opened.fd());
    let before = opened.it.file.calls.load(Ordering::Relaxed);
    opened.use_offset(3);
    opened.use_offset(FEW + 1);
    assert_eq!(opened.it.file.calls.load(Ordering::Relaxed), before, "the offset is the kernel's");
    let opened = Opened::new();
    opened.use_offset(FEW + 1);
    assert_eq!(opened.it.file.calls.load(Ordering::Relaxed), 2, "long lists are the kernel's");
}

/// A signal handler that interrupts the first `fstat` calls it too.
#[test]
fn ld5_what_a_file_looks_like_is_noted_inside_or_not_at_all() {
    let (opened, mut found) = (Opened::new(), MaybeUninit::<libc::stat>::uninit());
    // SAFETY: room for the result.
    let mut look = || assert_eq!(unsafe { file_size::fstat(opened.fd(), found.as_mut_ptr()) }, 0);
    let within = reentrancy::enter();
    look();
    assert!(opened.it.file.stat_template.get().is_none(), "this thread may be in the middle of it");
    drop(within);
    look();
    assert!(opened.it.file.stat_template.get().is_some());
}

fn content(file: fs::File) -> String {
    io::read_to_string(file).expect("read")
}

/// For example other threads write by the number while it is replaced.
#[test]
fn ld2_a_descriptor_that_is_replaced_has_the_right_offset_at_every_moment() {
    let (log, next) = (Opened::new(), Opened::new());
    let (old, new) = (log.again(), next.again());
    log.write(b"0123");
    next.write(b"abcdef");
    let done = replaced(next.fd(), log.fd(), || {
        log.write(b"before");
        let done = log.replace_by(&next);
        log.write(b"amid");
        done
    });
    log.write(b"behind");
    next.write(b"!");
    assert_eq!((done, content(old), content(new)), (log.fd(), "0123before".into(), "abcdefamidbehind!".into()));
}

#[test]
fn ld2_a_descriptor_that_is_not_replaced_after_all_keeps_its_offset() {
    let (log, next) = (Opened::new(), Opened::new());
    log.write(b"0123");
    let done = replaced(next.fd(), log.fd(), || {
        log.write(b"amid");
        -1
    });
    log.write(b"behind");
    assert_eq!((done, content(log.again())), (-1, "0123amidbehind".into()));
}

/// The call may have claimed a place of the old file.
#[test]
fn ld1_a_descriptor_is_replaced_when_what_was_begun_by_it_is_done() {
    let (log, next) = (Opened::new(), Opened::new());
    let (is_begun, is_done) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let kept = fd_table::held(log.fd());
            is_begun.wait();
            thread::sleep(Duration::from_millis(2));
            is_done.store(true, Ordering::SeqCst);
            drop(kept);
        });
        is_begun.wait();
        let done = replaced(next.fd(), log.fd(), || {
            assert!(is_done.load(Ordering::SeqCst), "by the old file's offset to the new file");
            log.replace_by(&next)
        });
        assert_eq!(done, log.fd());
    });
}

/// For example another thread replaces a descriptor while it is copied: the copy is not of the new file.
#[test]
fn ld3_a_copy_of_what_is_replaced_meanwhile_is_the_kernels() {
    let (log, next) = (Opened::new(), Opened::new());
    let mut kept = None;
    let copy = copied(log.fd(), || {
        let copy = kept.insert(log.file.try_clone().expect("copied")).as_raw_fd();
        assert_eq!(replaced(next.fd(), log.fd(), || log.replace_by(&next)), log.fd());
        copy
    });
    let stands = |fd| fd_table::held(fd).is_some_and(|it| Arc::ptr_eq(&it, &next.it));
    assert_eq!((stands(log.fd()), fd_table::has(copy), stands(copy)), (true, true, false));
    drop(fd_table::take(copy));
}

#[test]
fn ld1_a_descriptor_that_nobody_else_uses_is_not_waited_for() {
    let opened = Opened::new();
    let taken = fd_table::take(opened.fd());
    assert!(taken.is_some() && opened.it.is_idle());
    let kept = Arc::clone(&opened.it);
    assert!(!opened.it.is_idle());
    drop(kept);
}

/// For example another thread writes by the number while it is closed, and another opens a file that gets it.
#[test]
fn ld3_a_descriptor_that_is_closed_is_the_kernels_until_its_number_is_given_out_again() {
    let opened = Opened::new();
    opened.write(b"0123");
    let amid = || {
        opened.write(b"amid");
        0
    };
    left(opened.fd(), amid);
    assert_eq!((content(opened.again()), fd_table::has(opened.fd())), ("0123amid".into(), false));
    left(opened.fd(), || {
        fd_table::put(opened.fd(), Arc::clone(&opened.it));
        0
    });
    assert!(fd_table::has(opened.fd()), "what has come meanwhile stays");
}

/// It is a copy that this library does not know.
#[test]
fn ld2_the_kernel_has_the_offset_of_a_descriptor_that_a_process_takes_from_itself() {
    for by_number in [false, true] {
        let opened = Opened::new();
        opened.write(b"0123");
        // SAFETY: no pointer is passed.
        let taken = unsafe {
            let process = new_fds::pidfd_open(std::process::id() as c_int, 0);
            let copy = match by_number {
                false => new_fds::pidfd_getfd(process, opened.fd(), 0),
                true => {
                    let (process, fd) = (process.into(), opened.fd().into());
                    raw_syscall::syscall(libc::SYS_pidfd_getfd, process, fd, 0, 0, 0, 0) as c_int
                }
            };
            libc::close(process);
            fs::File::from_raw_fd(copy)
        };
        io::Write::write_all(&mut &taken, b"45").expect("written");
        opened.write(b"67");
        assert_eq!(content(opened.again()), "01234567", "by number: {by_number}");
    }
}

/// Returns the result of `work` in a copy of this process, without the other tests.
fn in_copy(work: impl FnOnce() -> bool) -> bool {
    // The copy would wait for other threads' calls.
    deferred_drop::wait();
    deferred_drop::freeze();
    let done = in_plain_copy(|| {
        ferrite_memory::forget_other_threads();
        deferred_drop::forget_in_child();
        fd_table::reset_in_child();
        work()
    });
    deferred_drop::thaw();
    done.expect("it waits for nobody")
}

/// Returns the result of `work` in a child without preparation; `None` if it does not end soon.
fn in_plain_copy(work: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the child takes no lock except those that this thread may have, and ends here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: nothing is passed.
        unsafe { libc::_exit(c_int::from(work())) };
    }
    let mut status = 0;
    let has_ended = |_| {
        thread::sleep(Duration::from_millis(2));
        // SAFETY: a live value.
        unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) == child }
    };
    if !(0..10_000).any(has_ended) {
        // SAFETY: a child of this test that was not reaped yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        return None;
    }
    assert!(libc::WIFEXITED(status));
    Some(libc::WEXITSTATUS(status) == 1)
}

/// Returns true if calls are direct after a process was made with `flags`.
fn is_direct_behind(flags: c_int) -> bool {
    let opened = Opened::new();
    in_copy(|| {
        fd_table::put(opened.fd(), Arc::clone(&opened.it));
        clone_with(flags);
        !reentrancy::is_off() && fd_table::has(opened.fd())
    })
}

/// The process may close a descriptor and open another file with its number.
#[test]
fn ld3_nothing_is_direct_where_another_process_has_the_same_descriptors() {
    let made_by = [libc::CLONE_VM | libc::CLONE_FILES, 0, libc::CLONE_VM, libc::CLONE_FILES];
    assert_eq!(made_by.map(is_direct_behind), [true, true, false, false]);
}

/// A child of vfork would wait for ever for the loader if another thread of its parent was loading a library.
#[test]
fn ld6_when_there_is_a_second_thread_all_functions_are_looked_up() {
    extern "C" fn begin(nothing: *mut c_void) -> *mut c_void {
        nothing
    }
    let (mut made, begin) = (MaybeUninit::uninit(), begin as *mut c_void);
    assert!(in_copy(|| {
        // SAFETY: a live value, and a function that takes and gives a pointer.
        let failed = unsafe { threads::pthread_create(made.as_mut_ptr(), ptr::null(), begin, ptr::null_mut()) };
        failed == 0 && super::all().all(|next| next.found.load(Ordering::Relaxed) == next.get())
    }));
}

/// The thread that held the known files may exist in the parent only.
#[test]
fn ld6_a_child_for_which_nothing_was_prepared_does_not_wait_for_what_is_known() {
    let file = tempfile::tempfile().expect("a file");
    known_files::freeze();
    let is_settled = in_plain_copy(|| {
        known_files::persist_all();
        known_files::persist_mount(file.as_raw_fd()).is_some()
    });
    known_files::thaw();
    assert_eq!(is_settled, Some(true));
}
