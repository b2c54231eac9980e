//! `syscall`: system calls by number, for calls without a name in the C library.
//!
//! Unsafe because any code can call this name, with the program's arguments.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_uint, c_ulong};

use super::prepared_calls::{before_confinement, clone_with, send_all, send_one, surrender_fd};
use super::{descriptors, entry, file_size, mappings, new_fds, read_write, seek_flush, user_change, vectors};
use crate::{fork_handlers, known_files, real};

entry! { syscall, (number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: the program's own arguments.
    let done = unsafe { by_name(number, arguments) };
    done.unwrap_or_else(|| {
        prepare(number, arguments);
        // SAFETY: the program's own arguments.
        let call = || unsafe { real::syscall(number, arguments) };
        if user_change::is_change(number) { user_change::changed_by(call) } else { call() }
    })
}}

/// Does a call that has an entry of its own here.
unsafe fn by_name(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
    let (fd, len) = (a as c_int, c as usize);
    // SAFETY: the program's own arguments, which the system call shares.
    Some(unsafe {
        match number {
            libc::SYS_sync => {
                seek_flush::sync();
                0
            }
            libc::SYS_read => read_write::read(fd, b as _, len) as c_long,
            libc::SYS_write => read_write::write(fd, b as _, len) as c_long,
            libc::SYS_pread64 => read_write::pread(fd, b as _, len, d) as c_long,
            libc::SYS_pwrite64 => read_write::pwrite(fd, b as _, len, d) as c_long,
            libc::SYS_readv => vectors::readv(fd, b as _, c as c_int) as c_long,
            libc::SYS_writev => vectors::writev(fd, b as _, c as c_int) as c_long,
            libc::SYS_lseek => seek_flush::lseek(fd, b, c as c_int),
            libc::SYS_open => descriptors::open(a as _, b as c_int, c as libc::mode_t).into(),
            libc::SYS_openat => descriptors::openat(fd, b as _, c as c_int, d as libc::mode_t).into(),
            libc::SYS_creat => descriptors::creat(a as _, b as libc::mode_t).into(),
            libc::SYS_fstat => file_size::fstat(fd, b as _).into(),
            libc::SYS_ftruncate => file_size::ftruncate(fd, b).into(),
            libc::SYS_syncfs => seek_flush::syncfs(fd).into(),
            libc::SYS_close => descriptors::close(fd).into(),
            libc::SYS_close_range => descriptors::close_range(a as c_uint, b as c_uint, c as c_int).into(),
            libc::SYS_dup => descriptors::dup(fd).into(),
            libc::SYS_dup2 => descriptors::dup2(fd, b as c_int).into(),
            libc::SYS_dup3 => descriptors::dup3(fd, b as c_int, c as c_int).into(),
            libc::SYS_pidfd_open => new_fds::pidfd_open(a as c_int, b as c_uint).into(),
            libc::SYS_pidfd_getfd => new_fds::pidfd_getfd(a as c_int, b as c_int, c as c_uint).into(),
            libc::SYS_setrlimit => seek_flush::setrlimit(a as c_uint, b as _).into(),
            libc::SYS_prlimit64 => seek_flush::prlimit(a as _, b as c_uint, c as _, d as _).into(),
            libc::SYS_mmap => {
                mappings::mmap(a as _, b as usize, c as c_int, d as c_int, e as c_int, f).addr() as c_long
            }
            libc::SYS_munmap => mappings::munmap(a as _, b as usize).into(),
            libc::SYS_mprotect => mappings::mprotect(a as _, b as usize, c as c_int).into(),
            libc::SYS_madvise => mappings::madvise(a as _, b as usize, c as c_int).into(),
            libc::SYS_mremap => mappings::mremap(a as _, b as usize, len, d as c_int, e as _).addr() as c_long,
            libc::SYS_fcntl => descriptors::fcntl(fd, b as c_int, c as c_ulong).into(),
            _ => return None,
        }
    })
}

/// The operations by which `seccomp` forbids system calls.
const FORBID: [c_uint; 2] = [libc::SECCOMP_SET_MODE_STRICT, libc::SECCOMP_SET_MODE_FILTER];

/// Prepares for the other calls.
fn prepare(number: c_long, [a, b, c, ..]: [c_long; 6]) {
    match number {
        libc::SYS_fork | libc::SYS_vfork => fork_handlers::before_copy(),
        libc::SYS_clone => clone_with(a as c_int),
        // SAFETY: the program's own arguments: the flags are the first field.
        libc::SYS_clone3 => clone_with(unsafe { *(a as *const c_int) }),
        libc::SYS_execve | libc::SYS_execveat => fork_handlers::before_exec(),
        // Its requests may use the offset unnoticed.
        libc::SYS_io_uring_setup => fork_handlers::before_split(),
        libc::SYS_seccomp if FORBID.contains(&(a as c_uint)) => before_confinement(),
        libc::SYS_prctl if a as c_int == libc::PR_SET_SECCOMP => before_confinement(),
        libc::SYS_unshare if a as c_int & libc::CLONE_FILES != 0 => fork_handlers::before_split(),
        libc::SYS_sendmsg => send_one(b as _),
        libc::SYS_sendmmsg => send_all(b as _, c as c_uint as usize),
        libc::SYS_fallocate => known_files::query_size(a as c_int),
        libc::SYS_sendfile | libc::SYS_copy_file_range | libc::SYS_splice | libc::SYS_preadv2 | libc::SYS_pwritev2 => {
            // Whichever of them are descriptors.
            for fd in [a, b, c] {
                surrender_fd(fd as c_int);
                known_files::query_size(fd as c_int);
            }
        }
        _ => {}
    }
}
