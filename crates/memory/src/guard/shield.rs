//! A guard at work on one mapping, and the windows through it.
#![allow(unsafe_code, reason = "mprotect and windows on raw memory")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, process};

use super::Guard;
use super::keys::{self, Key, KeyRights};
use crate::area::Area;
use crate::{Error, Result, Span, copy};

#[cfg(test)]
mod tests;

/// Bytes of a page, the smallest that a processor looks up.
const PAGE_BYTES: u64 = 4096;

/// The right that a window gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
}

/// A guard at work.
pub(crate) enum Shield {
    None,
    /// One window at a time, so that none closes pages another still writes.
    Pagetable(Mutex<()>),
    Private,
    Keys(Key),
}

impl Shield {
    pub fn new(guard: Guard) -> Result<Self> {
        Ok(match guard {
            Guard::None => Self::None,
            Guard::Pagetable => Self::Pagetable(Mutex::new(())),
            Guard::Private => Self::Private,
            Guard::Keys => Self::Keys(Key::of(false)?),
            Guard::KeysStrict => Self::Keys(Key::of(true)?),
        })
    }

    /// Returns the rights that a thread needs to load without a window. No thread can have them if every load needs
    /// one.
    pub fn open_loads(&self) -> OpenLoads {
        OpenLoads(match self {
            Self::None | Self::Pagetable(_) => KeyRights::ANY,
            Self::Keys(key) if !key.denies_reads() => key.loads(),
            Self::Keys(_) | Self::Private => KeyRights::NONE,
        })
    }

    /// The protection the mapping has while no window is open.
    pub fn closed_protection(&self, writable: bool) -> i32 {
        match self {
            Self::Private => libc::PROT_NONE,
            Self::Pagetable(_) => libc::PROT_READ,
            Self::None | Self::Keys(_) => protection(writable),
        }
    }

    /// Puts a fresh mapping under the guard.
    pub fn cover(&self, area: &Area, writable: bool) -> Result<()> {
        let Self::Keys(key) = self else { return Ok(()) };
        let (base, len, rights) = (area.base(), area.len(), protection(writable));
        // SAFETY: the mapping is the caller's own; only its rights change.
        let done = unsafe { libc::syscall(libc::SYS_pkey_mprotect, base, len, rights, key.number()) };
        if done == 0 { Ok(()) } else { Err(Error::last_os("putting a protection key on the mapping")) }
    }

    /// Opens a window on all of the mapping for stores, where that costs no more than one on a part of it.
    #[inline]
    pub fn open_whole(&self, area: &Area) -> Option<GuardWindow<'_>> {
        match self {
            Self::None | Self::Keys(_) => Some(self.open(area, Span::new(0, area.len()), Right::Write)),
            Self::Pagetable(_) | Self::Private => None,
        }
    }

    /// Announces that a window for stores to the page at `at` opens soon. A key's window opens when everything before
    /// it is done, also the fence of the previous copy, and the processor starts to look up the page only in it.
    /// Without a guard the lookup starts sooner, but not before most of the previous copy has left the queue of stores.
    /// So a line of the neighbouring page is prefetched ahead of the window. That finds the page's table or brings it
    /// near. A line of the page itself would enter the cache only to be evicted by the copy.
    #[inline]
    pub fn expect(&self, area: &Area, at: u64) {
        if matches!(self, Self::Keys(_) | Self::None) {
            copy::ask_for_line(area.base().wrapping_add((at ^ PAGE_BYTES) as usize));
        }
    }

    /// Opens a window on `span`, which lies within the mapping.
    #[inline]
    pub fn open(&self, area: &Area, span: Span, right: Right) -> GuardWindow<'_> {
        let plain = area.base().wrapping_add(span.at as usize);
        match self {
            Self::None => GuardWindow { ptr: plain, close: Close::Nothing },
            Self::Keys(key) if right == Right::Write || key.denies_reads() => {
                GuardWindow { ptr: plain, close: Close::Key(key.open(right)) }
            }
            Self::Keys(key) => {
                key.ensure_closed();
                GuardWindow { ptr: plain, close: Close::Nothing }
            }
            Self::Pagetable(_) if right == Right::Read => GuardWindow { ptr: plain, close: Close::Nothing },
            Self::Pagetable(turn) => open_pages(area, span, turn),
            Self::Private => map_window(area, span, right),
        }
    }
}

/// The rights with which a thread loads without a window: the short way of the hottest path.
#[derive(Clone, Copy)]
pub(crate) struct OpenLoads(KeyRights);

impl OpenLoads {
    /// Whether this thread may.
    #[inline(always)]
    pub fn allowed(self) -> bool {
        self.0.are_own()
    }
}

fn protection(writable: bool) -> i32 {
    if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ }
}

/// An opening in a guard, for one copy (GU2, GU3).
pub(crate) struct GuardWindow<'a> {
    ptr: *mut u8,
    close: Close<'a>,
}

enum Close<'a> {
    Nothing,
    Key(u32),
    Protect { pages: *mut u8, len: usize, _turn: MutexGuard<'a, ()> },
    Unmap { pages: *mut u8, len: usize },
}

impl GuardWindow<'_> {
    /// Where the span's first byte is while the window is open.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
}

impl Drop for GuardWindow<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.close {
            Close::Nothing => {}
            Close::Key(register) => keys::close(register),
            Close::Protect { pages, len, .. } => protect(pages, len, libc::PROT_READ),
            Close::Unmap { pages, len } => unmap(pages, len),
        }
    }
}

#[cold]
fn open_pages<'a>(area: &Area, span: Span, turn: &'a Mutex<()>) -> GuardWindow<'a> {
    let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let span_pages = area.pages_of(span);
    let (pages, len) = (area.base().wrapping_add(span_pages.at as usize), span_pages.len as usize);
    protect(pages, len, protection(true));
    GuardWindow { ptr: area.base().wrapping_add(span.at as usize), close: Close::Protect { pages, len, _turn: turn } }
}

#[cold]
fn map_window<'a>(area: &Area, span: Span, right: Right) -> GuardWindow<'a> {
    let window = area.pages_of(span);
    let (len, rights) = (window.len as usize, protection(right == Right::Write));
    let pages = area.map_again(window, rights).unwrap_or_else(|why| end("mapping a window", &why));
    GuardWindow { ptr: pages.wrapping_add((span.at - window.at) as usize), close: Close::Unmap { pages, len } }
}

fn protect(pages: *mut u8, len: usize, rights: i32) {
    // SAFETY: the pages belong to the mapping behind the shield; only their rights change.
    if unsafe { libc::mprotect(pages.cast(), len, rights) } != 0 {
        end("changing the protection of a window", &io::Error::last_os_error());
    }
}

fn unmap(pages: *mut u8, len: usize) {
    // SAFETY: the window made this mapping and its pointer dies with it.
    if unsafe { libc::munmap(pages.cast(), len) } != 0 {
        end("unmapping a window", &io::Error::last_os_error());
    }
}

/// Ends the process (GU4). The line goes past the standard error's lock, which another thread may hold for ever.
#[cold]
fn end(what: &str, why: &io::Error) -> ! {
    let advice = "raise vm.max_map_count or choose another guard";
    let line = format!("{what}: {why}: {advice}; the process ends here, which to its pools is a crash\n");
    // SAFETY: the bytes are a live buffer's, which the kernel only reads.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    process::abort()
}
