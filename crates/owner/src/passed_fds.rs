//! Bytes over a socket, with file descriptors (SCM_RIGHTS).
//!
//! Unsafe because control messages are laid out by hand in a buffer that the kernel reads and writes.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Most descriptors that ride on one frame.
pub const FDS_MAX: usize = 16;

const FD_BYTES: usize = size_of::<RawFd>();
/// ConnectionLimits for the header and the descriptors, in words so that it is aligned as a header must be.
const CONTROL_WORDS: usize = (size_of::<libc::cmsghdr>() + FDS_MAX * FD_BYTES).div_ceil(8);

fn message(part: &mut libc::iovec, control: &mut [u64; CONTROL_WORDS], control_bytes: usize) -> libc::msghdr {
    // SAFETY: all zeros is a valid msghdr.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    if control_bytes > 0 {
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = control_bytes;
    }
    header
}

/// Sends as many of `bytes` as fit the socket at once, with `fds` on the first of them. Returns the number of bytes sent.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    assert!(fds.len() <= FDS_MAX, "{} descriptors on one frame", fds.len());
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let fds_bytes = fds.len() * FD_BYTES;
    // SAFETY: only arithmetic.
    let space = if fds.is_empty() { 0 } else { unsafe { libc::CMSG_SPACE(fds_bytes as u32) as usize } };
    let header = message(&mut part, &mut control, space);
    if !fds.is_empty() {
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: the control buffer is aligned, zeroed, and has CONTROL_WORDS words, which hold a header and
        // FDS_MAX descriptors; CMSG_FIRSTHDR gives its start and CMSG_DATA the place behind the header.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(fds_bytes as u32) as usize;
            std::ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), libc::CMSG_DATA(first), fds_bytes);
        }
    }
    // SAFETY: the header points at `bytes` (only read) and at the control buffer, which both outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives at most `into.len()` bytes into `into` and their descriptors into `fds`. Zero bytes mean that the other side has
/// closed. If this process had no room for some descriptors the others are closed: the frame says how many were sent (O6).
/// Fails if too many descriptors arrive.
pub(super) fn receive(socket: BorrowedFd<'_>, into: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut header = message(&mut part, &mut control, CONTROL_WORDS * 8);
    // SAFETY: the header points at `into` and at the control buffer with their true lengths; both outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    take_descriptors(&header, fds);
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        fds.clear();
    }
    if fds.len() > FDS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too many file descriptors"));
    }
    Ok(got)
}

fn take_descriptors(header: &libc::msghdr, fds: &mut Vec<OwnedFd>) {
    // SAFETY: the kernel has filled the control buffer and its length; CMSG_FIRSTHDR and CMSG_NXTHDR stay within
    // them. Each number in an SCM_RIGHTS message is a descriptor made for us alone, which is owned from here on.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(header);
        while !entry.is_null() {
            if ((*entry).cmsg_level, (*entry).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let count = ((*entry).cmsg_len - libc::CMSG_LEN(0) as usize) / FD_BYTES;
                let data = libc::CMSG_DATA(entry).cast::<c_int>();
                fds.extend((0..count).map(|i| OwnedFd::from_raw_fd(data.add(i).read_unaligned())));
            }
            entry = libc::CMSG_NXTHDR(header, entry);
        }
    }
}
