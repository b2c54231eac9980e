//! Calls as a program makes them, on a file that nobody serves directly.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Once};

use libc::iovec;

use super::{data, stat, vectors};
use crate::description::{Description, FEW};
use crate::file::File;
use crate::mounts::Mount;
use crate::{inside, table};

/// A file of ours, open under a number.
struct Opened {
    file: fs::File,
    it: Arc<Description>,
}

impl Opened {
    fn new() -> Self {
        static TABLE: Once = Once::new();
        TABLE.call_once(table::make);
        let file = tempfile::tempfile().expect("a file");
        let known = Arc::new(File::new(Arc::new(Mount::nowhere()), 1, false));
        let it = Arc::new(Description::new(known, libc::O_RDWR));
        table::put(file.as_raw_fd(), Arc::clone(&it));
        Self { file, it }
    }

    fn fd(&self) -> c_int {
        self.file.as_raw_fd()
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
                data::write(self.fd(), listed[0].iov_base, 1),
                vectors::writev(self.fd(), first, count),
                data::read(self.fd(), listed[0].iov_base, 1),
                vectors::readv(self.fd(), first, count),
            ]
        };
        assert_eq!(done[..2], [1, parts as isize]);
        assert!(done[2] >= 0 && done[3] >= 0, "{done:?}");
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        drop(table::take(self.fd()));
    }
}

/// A lease that is asked for in vain is taken for refused.
#[test]
fn no_lease_is_asked_for_where_nothing_is_tried_directly() {
    let opened = Opened::new();
    opened.use_offset(3);
    assert_eq!(opened.it.file.spent(), 4, "tried, as the offset is here");
    assert!(opened.it.stand(opened.fd()));
    let before = opened.it.file.spent();
    opened.use_offset(3);
    assert_eq!(opened.it.file.spent() - before, 2, "of standard output by one part only");
    opened.it.surrender(opened.fd());
    let before = opened.it.file.spent();
    opened.use_offset(3);
    opened.use_offset(FEW + 1);
    assert_eq!(opened.it.file.spent(), before, "the offset is the kernel's");
    let opened = Opened::new();
    opened.use_offset(FEW + 1);
    assert_eq!(opened.it.file.spent(), 2, "long lists are the kernel's");
}

/// A handler of a signal that comes amid a first look looks too.
#[test]
fn ld5_what_a_file_looks_like_is_noted_inside_or_not_at_all() {
    let (opened, mut found) = (Opened::new(), MaybeUninit::<libc::stat>::uninit());
    // SAFETY: room for what is told.
    let mut look = || assert_eq!(unsafe { stat::fstat(opened.fd(), found.as_mut_ptr()) }, 0);
    let within = inside::enter();
    look();
    assert!(!opened.it.file.has_looks(), "this thread may be in the middle of it");
    drop(within);
    look();
    assert!(opened.it.file.has_looks());
}
