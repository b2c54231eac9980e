//! Functions of the C library that are called unchanged after a preparation: they use an offset within the C library or
//! the kernel, or pass descriptors on. Some take any number of arguments, so all arguments stay in place and the
//! function is jumped to.
//!
//! Unsafe because any code can call these names, with the program's arguments.
#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

use libc::{mmsghdr, msghdr};

use super::new_fds::each_passed;
use super::read_write::may_be_memory;
use super::user_change;
use crate::real::{self, nexts};
use crate::{fd_table, fork_handlers, known_files};

/// The first six arguments.
struct CallArguments([usize; 6]);

impl CallArguments {
    fn fd(&self, at: usize) -> c_int {
        self.0[at] as c_int
    }
}

macro_rules! before {
    ($($name:ident: $what:path;)*) => {
        nexts! { $($name)* }
        $(
        const _: () = {
            extern "C" fn prepare(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> *mut c_void {
                $what(&CallArguments([a, b, c, d, e, f]));
                let next = next::$name.get();
                if next.is_null() { missing as *mut c_void } else { next }
            }

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    "push rbp",
                    "mov rbp, rsp",
                    "sub rsp, 192",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx",
                    "mov [rsp + 32], r8",
                    "mov [rsp + 40], r9",
                    "mov [rsp + 48], rax",
                    "movaps [rsp + 64], xmm0",
                    "movaps [rsp + 80], xmm1",
                    "movaps [rsp + 96], xmm2",
                    "movaps [rsp + 112], xmm3",
                    "movaps [rsp + 128], xmm4",
                    "movaps [rsp + 144], xmm5",
                    "movaps [rsp + 160], xmm6",
                    "movaps [rsp + 176], xmm7",
                    "call {prepare}",
                    "mov r11, rax",
                    "mov rdi, [rsp]",
                    "mov rsi, [rsp + 8]",
                    "mov rdx, [rsp + 16]",
                    "mov rcx, [rsp + 24]",
                    "mov r8, [rsp + 32]",
                    "mov r9, [rsp + 40]",
                    "mov rax, [rsp + 48]",
                    "movaps xmm0, [rsp + 64]",
                    "movaps xmm1, [rsp + 80]",
                    "movaps xmm2, [rsp + 96]",
                    "movaps xmm3, [rsp + 112]",
                    "movaps xmm4, [rsp + 128]",
                    "movaps xmm5, [rsp + 144]",
                    "movaps xmm6, [rsp + 160]",
                    "movaps xmm7, [rsp + 176]",
                    "leave",
                    "jmp r11",
                    prepare = sym prepare,
                )
            }
        };
    )*};
}

before! {
    dprintf: surrender;
    vdprintf: surrender;
    __dprintf_chk: surrender;
    __vdprintf_chk: surrender;
    backtrace_symbols_fd: surrender;
    ioctl: control;
    lockf: show;
    lockf64: show;
    fallocate: tell;
    fallocate64: tell;
    posix_fallocate: tell;
    posix_fallocate64: tell;
    sendmsg: send_message;
    sendmmsg: send_messages;
    execl: exec;
    execle: exec;
    execlp: exec;
    execv: exec;
    execve: exec;
    execvp: exec;
    execvpe: exec;
    execveat: exec;
    fexecve: exec;
    system: start;
    posix_spawn: spawn;
    posix_spawnp: spawn;
    pidfd_spawn: spawn;
    pidfd_spawnp: spawn;
    clone: make_copy;
    unshare: split;
    prctl: confine;
    pthread_cancel: cancel;
    io_uring_queue_init: begin_ring;
    io_uring_queue_init_mem: begin_ring;
    io_uring_queue_init_params: begin_ring;
    io_uring_setup: begin_ring;
}

/// Called in the place of a function that the C library does not have.
extern "C" fn missing() -> isize {
    real::set_errno(libc::ENOSYS);
    -1
}

/// Gives the offset of `fd` to the kernel.
pub fn surrender_fd(fd: c_int) {
    if let Some(it) = fd_table::held(fd) {
        it.surrender(fd);
    }
}

fn surrender(passed: &CallArguments) {
    surrender_fd(passed.fd(0));
}

fn show(passed: &CallArguments) {
    if let Some(it) = fd_table::held(passed.fd(0)) {
        it.show(passed.fd(0));
    }
}

/// The size decides whether a limit is in the way.
fn tell(passed: &CallArguments) {
    known_files::query_size(passed.fd(0));
}

/// The number of readable bytes counts from the offset to the end.
fn control(passed: &CallArguments) {
    if passed.0[1] == libc::FIONREAD as usize {
        let tell_or_show = if fd_table::has(passed.fd(0)) { show } else { tell };
        tell_or_show(passed);
    }
}

fn send_message(passed: &CallArguments) {
    send_one(passed.0[1] as *const msghdr);
}

/// Prepares for sending a message.
pub fn send_one(message: *const msghdr) {
    if may_be_memory(message.addr(), size_of::<msghdr>()) {
        // SAFETY: the program's own arguments.
        unsafe { each_passed(message, |fd| surrender_fd(*fd)) };
    }
}

fn send_messages(passed: &CallArguments) {
    send_all(passed.0[1] as *const mmsghdr, passed.0[2]);
}

/// The most messages that the kernel sends at once.
const SENT_MAX: usize = 1024;

/// Prepares for sending `count` messages.
pub fn send_all(messages: *const mmsghdr, count: usize) {
    for at in 0..count.min(SENT_MAX) {
        send_one(messages.wrapping_add(at).cast());
    }
}

/// Prepares for a mapping of `fd`.
pub fn map_with(fd: c_int, flags: c_int) {
    if fd < 0 || flags & libc::MAP_ANONYMOUS != 0 {
        return;
    }
    if flags & libc::MAP_SHARED != 0 {
        known_files::map(fd);
    }
    known_files::query_size(fd);
}

fn exec(_: &CallArguments) {
    fork_handlers::before_exec();
}

fn start(_: &CallArguments) {
    fork_handlers::before_start();
}

fn spawn(passed: &CallArguments) {
    // File actions may copy any descriptor, and cannot be inspected.
    if passed.0[2] == 0 { fork_handlers::before_start() } else { fork_handlers::before_copy() }
}

fn make_copy(passed: &CallArguments) {
    clone_with(passed.fd(2));
}

/// Prepares for a process that shares with this one what `flags` say. A process with this memory and its own
/// descriptors looks like this one; a process with these descriptors and its own memory may close them unnoticed.
pub fn clone_with(flags: c_int) {
    match (flags & libc::CLONE_VM != 0, flags & libc::CLONE_FILES != 0) {
        (true, true) => {}
        (true, false) | (false, true) => fork_handlers::before_split(),
        (false, false) => fork_handlers::before_copy(),
    }
}

/// The cancelled thread ends in its next system call, and direct calls make none.
fn cancel(_: &CallArguments) {
    fork_handlers::before_split();
}

/// Requests of the ring use offsets and close descriptors unnoticed: liburing calls the kernel by itself.
fn begin_ring(_: &CallArguments) {
    fork_handlers::before_split();
}

fn confine(passed: &CallArguments) {
    if passed.fd(0) == libc::PR_SET_SECCOMP {
        before_confinement();
    }
}

/// Prepares for a filter of system calls, which may forbid calls that this library makes in place of the program's own
/// (LD1), and those that check the user (LD9).
pub fn before_confinement() {
    fork_handlers::before_split();
    user_change::give_up();
}

fn split(passed: &CallArguments) {
    if passed.fd(0) & libc::CLONE_FILES != 0 {
        fork_handlers::before_split();
    }
}
