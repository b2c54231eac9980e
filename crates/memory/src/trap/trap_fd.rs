//! The kernel's reports of faults (userfaultfd).
#![allow(unsafe_code, reason = "system calls that the standard library does not offer")]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

// Of <linux/userfaultfd.h>.
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_WAKE: libc::c_ulong = 0x8010_aa02;
const UFFDIO_CONTINUE: libc::c_ulong = 0xc020_aa07;
const USERFAULTFD_IOC_NEW: libc::c_ulong = 0xaa00;
/// Reports of remaps; faults of shared memory without a page, and with one; write protection of shared memory; and one
/// that came with `UFFDIO_CONTINUE` of a write-protected page (Linux 6.4), which no bit announces.
const FEATURES: u64 = 1 << 2 | 1 << 5 | 1 << 10 | 1 << 12 | 1 << 13;
/// Register for pages that are missing, for write protection, and for pages that the file has and the mapping has not.
const MODES: u64 = 1 | 2 | 4;
const CONTINUE_MODE_WP: u64 = 2;
const EVENT_PAGEFAULT: u8 = 0x12;
/// The fault is a store, or a store to a write-protected page.
const FAULT_STORES: u64 = 1 | 2;

/// The argument of `UFFDIO_API`.
#[repr(C)]
struct ApiArgument {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// The argument of `UFFDIO_REGISTER`, `UFFDIO_WAKE` (its first two words) and `UFFDIO_CONTINUE`.
#[repr(C)]
struct RangeArgument {
    start: u64,
    len: u64,
    mode: u64,
    done: u64,
}

/// A message of the kernel.
#[repr(C)]
#[derive(Default)]
struct TrapMessage {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    rest: u64,
}

/// A descriptor that reports faults, and the way to end waiting for them.
pub(super) struct TrapFd {
    faults: OwnedFd,
    is_stopped: AtomicBool,
    stop: OwnedFd,
}

impl TrapFd {
    pub fn open() -> Result<Self> {
        // SAFETY: the call makes a new descriptor.
        let stop = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if stop < 0 {
            return Err(Error::last_os("making an event"));
        }
        // SAFETY: the descriptor is fresh and owned by nothing else.
        let stop = unsafe { OwnedFd::from_raw_fd(stop) };
        let new = Self { faults: open_faults()?, is_stopped: AtomicBool::new(false), stop };
        let mut api = ApiArgument { api: UFFD_API, features: FEATURES, ioctls: 0 };
        new.order(UFFDIO_API, &mut api).map_err(|why| match why.raw_os_error() {
            Some(libc::EINVAL) => {
                Error::Unsupported("this kernel does not write-protect shared memory: Linux 6.4 does".into())
            }
            _ => Error::io("asking for reports of faults", why),
        })?;
        Ok(new)
    }

    fn order<T>(&self, request: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        // SAFETY: the argument is the one of `request`, and the kernel keeps no pointer to it.
        let done = unsafe { libc::ioctl(self.faults.as_raw_fd(), request, std::ptr::from_mut(argument)) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Asks for reports of the faults of `len` bytes from the address `start` on.
    pub fn register(&self, start: u64, len: u64) -> Result<()> {
        let mut range = RangeArgument { start, len, mode: MODES, done: 0 };
        self.order(UFFDIO_REGISTER, &mut range).map_err(|why| Error::io("registering a region", why))
    }

    /// Maps the page of DRAM behind the address `start`, and wakes.
    pub fn show(&self, start: u64, len: u64, is_read_only: bool) -> io::Result<()> {
        let mode = if is_read_only { CONTINUE_MODE_WP } else { 0 };
        self.order(UFFDIO_CONTINUE, &mut RangeArgument { start, len, mode, done: 0 })
    }

    /// Wakes the threads that wait for an address of the range.
    pub fn wake(&self, start: u64, len: u64) {
        let mut range = RangeArgument { start, len, mode: 0, done: 0 };
        self.order(UFFDIO_WAKE, &mut range).expect("whole pages of the region");
    }

    /// Waits for the next fault. Returns its address, and true if it is a store; `None` once it was stopped.
    pub fn next(&self) -> Result<Option<(u64, bool)>> {
        let mut message = TrapMessage::default();
        let size = size_of::<TrapMessage>();
        while !self.is_stopped.load(Ordering::Acquire) {
            // SAFETY: the message is as long as the kernel's, and any bytes are a message.
            let read = unsafe { libc::read(self.faults.as_raw_fd(), (&raw mut message).cast(), size) };
            if read == size as isize && message.event == EVENT_PAGEFAULT {
                return Ok(Some((message.address, message.flags & FAULT_STORES != 0)));
            }
            if read < 0 {
                let why = io::Error::last_os_error();
                match why.raw_os_error() {
                    Some(libc::EAGAIN) => self.wait(),
                    Some(libc::EINTR) => {}
                    _ => return Err(Error::io("reading the faults of a region", why)),
                }
            }
        }
        Ok(None)
    }

    fn wait(&self) {
        let of = |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut both = [of(&self.faults), of(&self.stop)];
        // SAFETY: the array has two entries. A signal that ends the wait makes the caller try again.
        unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
    }

    /// Ends waiting for faults.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        let one = 1_u64;
        // SAFETY: eight bytes of a local. The write fails only if the event is set already.
        unsafe { libc::write(self.stop.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

/// Opens a descriptor for faults of programs and of the kernel.
fn open_faults() -> Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the call makes a new descriptor.
    let mut fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) as i32 };
    if fd < 0
        && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
        && let Ok(device) = OpenOptions::new().read(true).write(true).open("/dev/userfaultfd")
    {
        // SAFETY: the call makes a new descriptor.
        fd = unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW, flags) };
    }
    if fd < 0 {
        return Err(Error::Unsupported(format!(
            "reports of faults (userfaultfd: {}): run as root, or as a user who may open /dev/userfaultfd",
            io::Error::last_os_error()
        )));
    }
    // SAFETY: the descriptor is fresh and owned by nothing else.
    let faults = unsafe { OwnedFd::from_raw_fd(fd) };
    // A copy, whose number any library that stands in for the C library's functions knows.
    faults.try_clone().map_err(|why| Error::io("copying the descriptor of faults", why))
}
