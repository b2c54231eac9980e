//! Jumps out of a signal handler. The interrupted direct call had pinned its pages, and never continues: only the jump
//! can end that pin.
//!
//! Unsafe because any code can call these names, and because the stack is inspected.
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

/// The index of the stack pointer in a `jmp_buf`, in words.
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
                // SAFETY: the program's own arguments.
                unsafe { end_if_left(place) };
            }
            // SAFETY: the C library's function of this name has this signature.
            let next: unsafe extern "C" fn(*const usize, c_int) -> ! = unsafe { mem::transmute(next::$name.get()) };
            // SAFETY: the program's own arguments.
            unsafe { next(place, value) }
        }
    )*};
}

jumps! { longjmp _longjmp siglongjmp __longjmp_chk }

/// Ends this thread's pins if a jump to `place` leaves the code that pinned.
#[cold]
unsafe fn end_if_left(place: *const usize) {
    // SAFETY: the program's own arguments.
    let mangled = unsafe { place.add(STACK_POINTER).read() };
    let mut search = FrameSearch { target: plain(mangled), last: usize::MAX, is_outside: false, leaves: false };
    // A handler could jump out of the loader, which holds a lock.
    let before = signals::block();
    // SAFETY: `each` gets the live value of its type.
    unsafe { _Unwind_Backtrace(each, (&raw mut search).cast()) };
    if search.leaves {
        end_pins_of_thread();
        end_own_pin();
    }
    signals::restore(&before);
}

/// Returns a pointer as it was before the C library mangled it.
fn plain(mangled: usize) -> usize {
    let key: usize;
    // SAFETY: a load of the C library's per-thread key.
    unsafe { asm!("mov {}, fs:[0x30]", out(reg) key, options(nostack, readonly, preserves_flags)) };
    mangled.rotate_right(17) ^ key
}

/// A search through the frames for the target, which is below or above the code that pinned.
struct FrameSearch {
    target: usize,
    /// The stack pointer of the frame before.
    last: usize,
    /// True after a frame of the handler.
    is_outside: bool,
    leaves: bool,
}

unsafe extern "C" fn each(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: the pointer that the unwinder was given.
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

/// Returns true if the code at `at` is this library's.
fn is_here(at: usize) -> bool {
    let base = |at: usize| {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the result is written to a live value, for which all zeros are valid.
        let (known, found) = unsafe { (libc::dladdr(at as *const c_void, found.as_mut_ptr()), found.assume_init()) };
        (known != 0).then_some(found.dli_fbase)
    };
    base(at).is_some_and(|found| Some(found) == base(each as *const () as usize))
}
