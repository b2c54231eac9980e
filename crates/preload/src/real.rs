//! The functions that would be called without this library: the next of their name.
//!
//! Unsafe because they are found by name and called by pointer, with the program's own arguments.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    FILE, iovec, mode_t, msghdr, off_t, pthread_attr_t, pthread_t, rlimit, size_t, sockaddr, socklen_t, ssize_t, stat,
    uid_t,
};

/// The next function of a name, looked up at its first call, or when the program creates its first thread.
pub struct NextFunction {
    name: &'static CStr,
    pub found: AtomicPtr<c_void>,
}

impl NextFunction {
    pub const fn new(name: &'static str) -> Self {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Self { name, found: AtomicPtr::new(std::ptr::null_mut()) },
            Err(_) => panic!("a name ends in a zero"),
        }
    }

    /// Returns the function, or null if the C library lacks it.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let mut found = sought(None, self.name);
        if found.is_null() && self.name.to_bytes().starts_with(b"io_uring") {
            let by = RINGS.map(|library| sought(Some(library), self.name));
            found = by.into_iter().find(|found| !found.is_null()).unwrap_or(found);
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// The names of liburing; a plug-in that was loaded late may have its own.
const RINGS: [&CStr; 3] = [c"liburing.so.2", c"liburing-ffi.so.2", c"liburing.so.1"];

/// Returns `name` in `library`, which then stays loaded, if it is; or in the library that would be asked without this
/// one.
fn sought(library: Option<&CStr>, name: &CStr) -> *mut c_void {
    // SAFETY: C strings; nothing is loaded. Null would stand for all libraries, and so for this one.
    unsafe {
        let loaded = |library: &CStr| libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let place = library.map_or(libc::RTLD_NEXT, loaded);
        if place.is_null() { place } else { libc::dlsym(place, name.as_ptr()) }
    }
}

/// The result of a function that the C library does not have.
pub trait FailureValue {
    const FAILED: Self;
}

impl FailureValue for c_int {
    const FAILED: Self = -1;
}

impl FailureValue for ssize_t {
    const FAILED: Self = -1;
}

impl FailureValue for i64 {
    const FAILED: Self = -1;
}

impl FailureValue for () {
    const FAILED: Self = ();
}

impl<T> FailureValue for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

pub fn set_errno(error: c_int) {
    // SAFETY: the C library returns a pointer to the thread's own errno.
    unsafe { *libc::__errno_location() = error }
}

pub fn errno() -> c_int {
    // SAFETY: the same pointer.
    unsafe { *libc::__errno_location() }
}

/// `PTHREAD_CANCEL_DISABLE`.
const NO_CANCELS: c_int = 1;

/// Blocks cancellation of this thread until [`restore_cancellation`] gets the result.
pub fn block_cancellation() -> c_int {
    let mut before = 0;
    // SAFETY: the C library writes to a live value.
    unsafe { pthread_setcancelstate(NO_CANCELS, &raw mut before) };
    before
}

pub fn restore_cancellation(before: c_int) {
    // SAFETY: null if the previous state is not needed.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
}

/// Defines a module `next` with the next function of each name, and a list of all.
macro_rules! nexts {
    ($($name:ident)*) => {
        pub(crate) mod next {
            use crate::real::NextFunction;

            $(
                #[allow(non_upper_case_globals)]
                pub static $name: NextFunction = NextFunction::new(concat!(stringify!($name), "\0"));
            )*
            pub static ALL: &[&NextFunction] = &[$(&$name),*];
        }
    };
}
pub(crate) use nexts;

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $out:ty;)*) => {
        nexts! { syscall $($name)* }
        $(
        #[allow(non_snake_case)]
        /// # Safety
        /// The conditions of the C library's function.
        pub unsafe fn $name($($argument: $kind),*) -> $out {
            let found = next::$name.get();
            if found.is_null() {
                set_errno(libc::ENOSYS);
                return <$out as FailureValue>::FAILED;
            }
            // SAFETY: the C library's function of this name has this signature.
            let found: unsafe extern "C" fn($($kind),*) -> $out = unsafe { std::mem::transmute(found) };
            // SAFETY: the caller's promise.
            unsafe { found($($argument),*) }
        }
    )*};
}

functions! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn creat(path: *const c_char, mode: mode_t) -> c_int;
    fn mkstemp(template: *mut c_char) -> c_int;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int;
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    fn __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    fn pread(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t;
    fn __pread_chk(fd: c_int, into: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t;
    fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t;
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn preadv(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    fn preadv2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t;
    fn copy_file_range(from: c_int, a: *mut off_t, to: c_int, b: *mut off_t, len: size_t, flags: c_uint) -> ssize_t;
    fn splice(from: c_int, a: *mut off_t, to: c_int, b: *mut off_t, len: size_t, flags: c_uint) -> ssize_t;
    fn lseek(fd: c_int, by: off_t, whence: c_int) -> off_t;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn sync() -> ();
    fn syncfs(fd: c_int) -> c_int;
    fn ftruncate(fd: c_int, len: off_t) -> c_int;
    fn fstat(fd: c_int, into: *mut stat) -> c_int;
    fn __fxstat(version: c_int, fd: c_int, into: *mut stat) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(fd: c_int, to: c_int) -> c_int;
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fn setrlimit(what: c_uint, limit: *const rlimit) -> c_int;
    fn prlimit(pid: c_int, what: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int;
    fn fclose(stream: *mut FILE) -> c_int;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    fn tmpfile() -> *mut FILE;
    fn mmap(place: *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int, at: off_t) -> *mut c_void;
    fn munmap(place: *mut c_void, len: size_t) -> c_int;
    fn mprotect(place: *mut c_void, len: size_t, rights: c_int) -> c_int;
    fn madvise(place: *mut c_void, len: size_t, advice: c_int) -> c_int;
    fn mremap(place: *mut c_void, len: size_t, new: size_t, flags: c_int, new_place: *mut c_void) -> *mut c_void;
    fn _Fork() -> c_int;
    fn pthread_create(thread: *mut pthread_t, how: *const pthread_attr_t, begin: *mut c_void, a: *mut c_void) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn pipe(pair: *mut c_int) -> c_int;
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int;
    fn eventfd(count: c_uint, flags: c_int) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn signalfd(fd: c_int, mask: *const c_void, flags: c_int) -> c_int;
    fn inotify_init() -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn pidfd_open(pid: c_int, flags: c_uint) -> c_int;
    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int;
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn setuid(uid: uid_t) -> c_int;
    fn seteuid(uid: uid_t) -> c_int;
    fn setreuid(real: uid_t, effective: uid_t) -> c_int;
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int;
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
}

/// Calls lseek(2).
pub fn moved(fd: c_int, by: off_t, whence: c_int) -> off_t {
    // SAFETY: no pointer is passed.
    unsafe { lseek(fd, by, whence) }
}

/// Makes the system call `number`.
///
/// # Safety
/// The conditions of the system call.
pub unsafe fn syscall(number: c_long, arguments: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: every C library has it, and it accepts the arguments of any system call.
    let found: unsafe extern "C" fn(c_long, ...) -> c_long = unsafe { std::mem::transmute(next::syscall.get()) };
    // SAFETY: the caller's promise.
    unsafe { found(number, a, b, c, d, e, f) }
}

/// Returns the content of the file at `path`.
pub fn contents(path: &CStr) -> Option<Vec<u8>> {
    const STEP: usize = 4096;
    // SAFETY: a C string; the descriptor is closed below.
    let fd = unsafe { open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    let (mut bytes, mut len) = (Vec::new(), usize::from(fd >= 0));
    while fd >= 0 && len > 0 {
        let end = bytes.len();
        bytes.resize(end + STEP, 0);
        // SAFETY: there are STEP bytes of room.
        len = usize::try_from(unsafe { read(fd, bytes[end..].as_mut_ptr().cast(), STEP) }).unwrap_or(0);
        bytes.truncate(end + len);
    }
    // SAFETY: opened above, unless it is -1, which is refused.
    unsafe { close(fd) };
    (!bytes.is_empty()).then_some(bytes)
}
