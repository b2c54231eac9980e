//! Offsets of a file without a lease: every byte goes through the kernel, at the place claimed here.
#![allow(unsafe_code, reason = "calls across a C interface")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::catch_unwind;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use ferrite_memory::planted::{plant, plant_with};

use super::*;
use crate::ferrite_mounts::FerriteMount;
use crate::{reentrancy, size_limit};

struct Opened {
    file: fs::File,
    it: Description,
}

impl Opened {
    fn new(content: &[u8], flags: c_int) -> Self {
        let mut file = tempfile::tempfile().expect("a file");
        io::Write::write_all(&mut file, content).expect("written");
        io::Seek::rewind(&mut file).expect("rewound");
        let known = Arc::new(LeasedFile::new(Arc::new(FerriteMount::nowhere()), 1, false));
        Self { file, it: Description::new(known, flags) }
    }

    fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn read(&self, len: usize) -> Vec<u8> {
        let mut room = vec![0; len];
        // SAFETY: there is room for `len` bytes.
        let len = unsafe { self.it.read_by_kernel(self.fd(), room.as_mut_ptr().cast(), len) };
        room.truncate(usize::try_from(len).expect("read"));
        room
    }

    fn write(&self, bytes: &[u8]) -> isize {
        // SAFETY: bytes of this test.
        unsafe { self.it.write_slowly(self.fd(), bytes, None) }.0
    }

    /// Returns the kernel's offset.
    fn kernel_at(&self) -> i64 {
        let mut file = &self.file;
        io::Seek::stream_position(&mut file).expect("told") as i64
    }
}

#[test]
fn ld2_an_offset_is_here_until_it_is_surrendered_and_then_in_the_kernel_for_good() {
    let opened = Opened::new(b"0123456789", libc::O_RDWR);
    assert_eq!((opened.read(3), opened.kernel_at()), (b"012".to_vec(), 0));
    assert_eq!(opened.it.seek(2, libc::SEEK_CUR), Some(5));
    opened.it.surrender(opened.fd());
    assert_eq!((opened.kernel_at(), opened.it.seek(0, libc::SEEK_CUR)), (5, None));
    assert_eq!((opened.read(2), opened.kernel_at()), (b"56".to_vec(), 7));
    opened.it.surrender(opened.fd());
    assert_eq!((opened.write(b"x"), opened.kernel_at()), (1, 8), "what is the kernel's is not set again");
}

/// Streams write in between, at the kernel's offset.
#[test]
fn ld2_of_standard_output_the_kernel_has_the_offset_at_every_moment() {
    let opened = Opened::new(b"0123456789", libc::O_RDWR);
    opened.it.seek(4, libc::SEEK_SET).expect("ours");
    assert!(opened.it.become_standard(opened.fd()));
    assert_eq!((opened.kernel_at(), opened.it.seek(0, libc::SEEK_CUR)), (4, None));
    assert_eq!((opened.write(b"ab"), opened.kernel_at()), (2, 6));
    // SAFETY: a byte of ours.
    assert_eq!(unsafe { libc::write(opened.fd(), b"s".as_ptr().cast(), 1) }, 1);
    assert_eq!((opened.write(b"c"), opened.kernel_at()), (1, 8));
    opened.it.surrender(opened.fd());
    assert!(!opened.it.is_standard() && !opened.it.become_standard(opened.fd()), "somebody else has it: for good");
    assert_eq!((opened.write(b"d"), opened.kernel_at()), (1, 9));
    assert_eq!(fs::read(format!("/proc/self/fd/{}", opened.fd())).expect("read"), b"0123abscd9");
}

#[test]
fn ld2_of_standard_output_a_place_that_was_not_written_is_given_back() {
    let opened = Opened::new(b"0123456789", libc::O_RDWR);
    assert!(opened.it.become_standard(opened.fd()));
    let read_only = fs::File::open(format!("/proc/self/fd/{}", opened.fd())).expect("opened again");
    // SAFETY: bytes of ours.
    let done = unsafe { opened.it.write_slowly(read_only.as_raw_fd(), b"xyz", None) };
    // SAFETY: no pointer is passed.
    let at = unsafe { libc::lseek(read_only.as_raw_fd(), 0, libc::SEEK_CUR) };
    assert_eq!((done, real::errno(), at), ((-1, false), libc::EBADF, 0));
}

#[test]
fn canary_what_is_wrong_with_standard_output_is_found() {
    let moments = ld2_of_standard_output_the_kernel_has_the_offset_at_every_moment as fn();
    let given_back = ld2_of_standard_output_a_place_that_was_not_written_is_given_back as fn();
    let bugs = [
        ("preload: offset does not move over the claimed place", moments),
        ("preload: offset stays behind unused bytes", given_back),
        ("preload: other processes meet claims of this one", moments),
    ];
    for (bug, test) in bugs {
        let _planted = plant(bug);
        assert!(catch_unwind(test).is_err(), "{bug:?} was not found");
    }
}

/// A stream that appends does not query the end.
#[test]
fn ld7_what_appends_is_no_standard_output() {
    let opened = Opened::new(b"", libc::O_RDWR | libc::O_APPEND);
    assert!(!opened.it.become_standard(opened.fd()) && !opened.it.has_offset());
}

#[test]
fn ld2_what_the_kernel_does_with_a_lent_offset_comes_back() {
    let opened = Opened::new(b"0123456789", libc::O_RDWR);
    opened.it.seek(4, libc::SEEK_SET).expect("ours");
    let at = opened.it.lend(opened.fd(), || {
        // SAFETY: no pointer is passed.
        unsafe { libc::lseek(opened.fd(), 2, libc::SEEK_CUR) }
    });
    assert_eq!((at, opened.it.seek(0, libc::SEEK_CUR)), (6, Some(6)));
}

#[test]
fn seeks_that_only_the_kernel_can_refuse_change_nothing() {
    let opened = Opened::new(b"", libc::O_RDWR);
    opened.it.seek(9, libc::SEEK_SET).expect("ours");
    for (by, whence) in [(-1, libc::SEEK_SET), (-10, libc::SEEK_CUR), (i64::MAX, libc::SEEK_CUR), (0, libc::SEEK_DATA)]
    {
        assert_eq!(opened.it.seek(by, whence), None, "{by} {whence}");
    }
    assert_eq!(opened.it.seek(0, libc::SEEK_CUR), Some(9));
}

/// LD1: a failing call moves nothing.
#[test]
fn ld1_a_write_that_fails_gives_its_place_back() {
    let opened = Opened::new(b"0123456789", libc::O_RDWR);
    let reader = fs::File::open(format!("/proc/self/fd/{}", opened.fd())).expect("opened");
    opened.it.seek(4, libc::SEEK_SET).expect("ours");
    // SAFETY: bytes of ours.
    let (written, is_direct) = unsafe { opened.it.write_slowly(reader.as_raw_fd(), b"refused", None) };
    assert_eq!((written, is_direct, opened.it.seek(0, libc::SEEK_CUR)), (-1, false, Some(4)));
}

#[test]
fn ld2_writers_of_one_description_claim_places_of_their_own() {
    const EACH: u32 = 2000;
    let opened = Opened::new(b"", libc::O_RDWR);
    thread::scope(|scope| {
        for writer in 0..4 {
            let opened = &opened;
            scope.spawn(move || {
                for number in 0..EACH {
                    assert_eq!(opened.write(&(writer * EACH + number).to_le_bytes()), 4);
                }
            });
        }
    });
    opened.it.seek(0, libc::SEEK_SET).expect("ours");
    let all = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let word = opened.read(4);
                    let Ok(word) = <[u8; 4]>::try_from(word) else { break };
                    all.lock().expect("nobody panics").push(u32::from_le_bytes(word));
                }
            });
        }
    });
    let all = all.into_inner().expect("nobody panics");
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (4 * EACH as usize, 4 * EACH as usize));
}

/// Calls `first`; before it sets the kernel's offset another thread gives it away, if it can, and writes.
fn interrupted(first: impl FnOnce(&Opened) + Send + 'static) -> Vec<u8> {
    let opened = Arc::new(Opened::new(b"", libc::O_RDWR));
    opened.write(b"0123");
    let ((begins, has_begun), (goes_on, may_go_on)) = (channel(), channel());
    let late = Arc::clone(&opened);
    let late = thread::spawn(move || {
        let is_first = Cell::new(true);
        let _stop = plant_with("preload: thread stops before it sets the offset", move || {
            if is_first.replace(false) {
                begins.send(()).expect("the test listens");
                let _ = may_go_on.recv_timeout(Duration::from_millis(30));
            }
            false
        });
        first(&late);
    });
    has_begun.recv().expect("it sets the offset");
    opened.it.surrender(opened.fd());
    opened.write(b"45");
    let _ = goes_on.send(());
    late.join().expect("it ends");
    opened.write(b"67");
    fs::read(format!("/proc/self/fd/{}", opened.fd())).expect("read")
}

/// An offset that one thread sets after another has given it away would make the next record overwrite others.
#[test]
fn ld2_nobody_sets_an_offset_that_is_the_kernels_by_now() {
    let closed = |opened: &Opened| {
        // Another copy exists.
        (0..2).for_each(|_| opened.it.is_entered());
        opened.it.before_close(opened.fd());
    };
    let found = [
        interrupted(|opened| opened.it.show(opened.fd())),
        interrupted(|opened| opened.it.lend(opened.fd(), || ())),
        interrupted(|opened| opened.it.surrender(opened.fd())),
        interrupted(closed),
    ];
    assert_eq!(found, [b"01234567"; 4]);
}

/// Returns the final offset, in the kernel if it has it, when another thread does `second` right after the kernel moved
/// its own offset in `first`.
fn moved_amid(first: fn(&Opened, &dyn Fn()), second: fn(&Opened)) -> i64 {
    let opened = Opened::new(b"0123456789", libc::O_RDWR | libc::O_APPEND);
    opened.it.seek(3, libc::SEEK_SET).expect("ours");
    thread::scope(|scope| {
        let amid = || {
            let (goes, has_gone) = channel();
            let opened = &opened;
            scope.spawn(move || {
                second(opened);
                let _ = goes.send(());
            });
            let _ = has_gone.recv_timeout(Duration::from_millis(30));
        };
        first(&opened, &amid);
    });
    opened.it.seek(0, libc::SEEK_CUR).map_or_else(|| opened.kernel_at(), |at| at as i64)
}

/// For example another thread forks, or locks a range, while the kernel appends: the next record would overwrite
/// others.
#[test]
fn ld2_nobody_takes_an_offset_back_that_the_kernel_has_moved() {
    let append = |opened: &Opened, amid: &dyn Fn()| {
        let append = || {
            real::moved(opened.fd(), 0, libc::SEEK_END);
            io::Write::write_all(&mut &opened.file, b"abcd").expect("written");
            amid();
            4
        };
        assert_eq!(opened.it.append_by_kernel(opened.fd(), append), 4);
    };
    let seek = |opened: &Opened, amid: &dyn Fn()| {
        let seek = || {
            let at = real::moved(opened.fd(), 0, libc::SEEK_END);
            amid();
            at
        };
        assert_eq!(opened.it.lend(opened.fd(), seek), 10);
    };
    for second in [|opened: &Opened| opened.it.show(opened.fd()), |opened: &Opened| opened.it.surrender(opened.fd())] {
        assert_eq!((moved_amid(append, second), moved_amid(seek, second)), (14, 10));
    }
}

#[test]
fn ld1_what_the_kernel_refuses_in_turn_is_told_as_it_tells_it() {
    let opened = Opened::new(b"", libc::O_RDWR | libc::O_APPEND);
    let append = || {
        assert!(reentrancy::is(), "no handler comes and waits for the turn");
        real::set_errno(libc::ENOSPC);
        -1
    };
    real::set_errno(0);
    assert_eq!((opened.it.append_by_kernel(opened.fd(), append), real::errno()), (-1, libc::ENOSPC));
    assert!(!reentrancy::is());
}

/// The handler may have interrupted the thread that has the turn.
#[test]
fn ld5_a_handler_of_a_trap_waits_for_no_turn_to_append() {
    let opened = Opened::new(b"", libc::O_RDWR | libc::O_APPEND);
    opened.it.is_setting_offset.store(true, Ordering::Relaxed);
    let (_inside, began) = (reentrancy::enter(), Instant::now());
    assert_eq!(opened.write(b"abcd"), 4);
    assert!(began.elapsed() < Duration::from_millis(100));
    assert_eq!(opened.it.seek(0, libc::SEEK_CUR), Some(4));
}

/// A child may have the turn of a thread that does not exist in it.
#[test]
fn ld5_whose_turn_it_is_is_not_waited_for_for_ever() {
    let opened = Opened::new(b"0123456789", libc::O_RDWR);
    opened.it.seek(4, libc::SEEK_SET).expect("ours");
    opened.it.is_setting_offset.store(true, Ordering::Relaxed);
    opened.it.surrender(opened.fd());
    assert_eq!((opened.kernel_at(), opened.it.has_offset()), (4, false));
}

/// Of two appends the later one counts, in any order of completion.
#[test]
fn ld2_an_append_that_arrives_late_does_not_take_the_offset_back() {
    let opened = Opened::new(b"", libc::O_RDWR | libc::O_APPEND);
    let at = || opened.it.seek(0, libc::SEEK_CUR).expect("ours");
    opened.it.arrives(opened.fd(), 0, 20);
    assert_eq!(at(), 20);
    opened.it.arrives(opened.fd(), 0, 10);
    assert_eq!(at(), 20);
    for sought in [5, 90] {
        opened.it.seek(sought, libc::SEEK_SET).expect("ours");
        opened.it.arrives(opened.fd(), 20, 30);
        assert_eq!(at(), 30, "an append goes to the end, wherever was sought meanwhile");
    }
    opened.it.seek(90, libc::SEEK_SET).expect("ours");
    opened.it.arrives(opened.fd(), 90, 40);
    assert_eq!(at(), 40, "or before");
}

/// For example another thread forks in the middle of an append.
#[test]
fn ld2_an_append_arrives_where_the_offset_was_surrendered_meanwhile() {
    let opened = Opened::new(b"", libc::O_RDWR | libc::O_APPEND);
    opened.it.surrender(opened.fd());
    opened.it.arrives(opened.fd(), 0, 20);
    assert_eq!(opened.kernel_at(), 20);
    opened.it.arrives(opened.fd(), 0, 10);
    assert_eq!(opened.kernel_at(), 20, "somebody else was there");
}

/// A part that begins at the limit would be refused, with a signal, if it were written by itself.
#[test]
fn ld1_parts_up_to_the_limit_are_written_as_by_one_call() {
    let opened = Opened::new(b"0123456789", libc::O_RDWR);
    let part = |bytes: &'static [u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let parts = [part(b"abcd"), part(b"efgh"), part(b"ijkl")];
    // SAFETY: static bytes, only read.
    let parts = unsafe { IoParts::new(&parts) };
    // The kernel keeps its own limit: calls without a direct owner go to it.
    size_limit::FILE_BYTES.store(8, Ordering::Relaxed);
    let written = opened.it.write_parts_at_slowly(opened.fd(), &parts, 0, 4);
    size_limit::FILE_BYTES.store(size_limit::NONE, Ordering::Relaxed);
    assert_eq!(written.0, 8);
    assert_eq!(fs::read(format!("/proc/self/fd/{}", opened.fd())).expect("read"), b"0123efgh89");
}
