//! Jumps out of a handler of a signal. What it interrupted here had pinned what it copied from or to, and is left for good:
//! nobody else would end that pin.
//!
//! Unsafe because they are called by whoever knows the name, and for the stack that is looked through.
#![allow(unsafe_code)]

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::mem::{self, MaybeUninit};

use ferrite_fs_client::end_pins_of_thread;
use ferrite_memory::{end_own_pin, is_pinned};

use crate::real::nexts;
use crate::signals;

type Callback = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: Callback, search: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    fn _Unwind_GetCFA(frame: *mut c_void) -> usize;
}

/// Where the C library keeps the stack pointer in a `jmp_buf`, in words.
const STACK_POINTER: usize = 6;
/// `_URC_END_OF_STACK`: no more frames.
const STOP: c_int = 5;

macro_rules! jumps {
    ($($name:ident)*) => {
        nexts! { $($name)* }
        $(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(place: *const usize, value: c_int) -> ! {
            if is_pinned() {
                // SAFETY: as the program has it.
                unsafe { end_if_left(place) };
            }
            // SAFETY: the C library's function of this name has this signature.
            let next: unsafe extern "C" fn(*const usize, c_int) -> ! = unsafe { mem::transmute(next::$name.get()) };
            // SAFETY: as the program has it.
            unsafe { next(place, value) }
        }
    )*};
}

jumps! { longjmp _longjmp siglongjmp __longjmp_chk }

/// Ends this thread's pins if a jump to `place` leaves what pinned.
#[cold]
unsafe fn end_if_left(place: *const usize) {
    // SAFETY: as the program has it.
    let mangled = unsafe { place.add(STACK_POINTER).read() };
    let mut search = FrameSearch { target: plain(mangled), last: usize::MAX, is_outside: false, leaves: false };
    // Another one would jump out of the loader, which has a lock.
    let before = signals::block();
    // SAFETY: `each` is given the live value of its type.
    unsafe { _Unwind_Backtrace(each, (&raw mut search).cast()) };
    if search.leaves {
        end_pins_of_thread();
        end_own_pin();
    }
    signals::restore(&before);
}

/// A pointer as it was before the C library hid it.
fn plain(mangled: usize) -> usize {
    let key: usize;
    // SAFETY: a load of what the C library keeps for each thread.
    unsafe { asm!("mov {}, fs:[0x30]", out(reg) key, options(nostack, readonly, preserves_flags)) };
    mangled.rotate_right(17) ^ key
}

/// The frames from here on, until it is known whether the target is below or above what pinned.
struct FrameSearch {
    target: usize,
    /// The stack pointer of the frame before.
    last: usize,
    /// The handler was met.
    is_outside: bool,
    leaves: bool,
}

unsafe extern "C" fn each(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: what was passed along.
    let search = unsafe { &mut *search.cast::<FrameSearch>() };
    // SAFETY: the frame that the unwinder is at.
    let (at, stack) = unsafe { (_Unwind_GetIP(frame), _Unwind_GetCFA(frame)) };
    if (search.last..stack).contains(&search.target) {
        // Within the handler.
        return STOP;
    }
    search.last = stack;
    match is_here(at) {
        true if search.is_outside => {
            search.leaves = true;
            STOP
        }
        true => 0,
        false => {
            search.is_outside = true;
            0
        }
    }
}

/// Whether the code at `at` is this library's.
fn is_here(at: usize) -> bool {
    let base = |at: usize| {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: what is found is written to a live value, for which all zeros are valid.
        let (known, found) = unsafe { (libc::dladdr(at as *const c_void, found.as_mut_ptr()), found.assume_init()) };
        (known != 0).then_some(found.dli_fbase)
    };
    base(at).is_some_and(|found| Some(found) == base(each as *const () as usize))
}
