//! Pins: reusing space without a lock on the data path.
//!
//! A thread pins before it looks up the place of bytes and unpins after it has copied them. A thread that frees space
//! waits for earlier pins ([`wait_for_pins`]) before the space is used again. Pinning is one plain store to a line of
//! the thread's own. The waiting thread pays the price: it makes every processor pass a full barrier.
//!
//! - P1. A thread that pinned before the wait began, and is still pinned, ends the wait only by unpinning, or by
//!   ending.
//! - P2. A thread that pins after the wait began sees everything its caller had stored before it.
//!
//! Threads of other processes pin in shared words ([`Foreign`]), and a wait for them ends after a time limit.
//!
//! Never wait while pinned: the wait would be for the own pin.
#![allow(unsafe_code, reason = "membarrier")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};

use crate::planted;

const THREADS_MAX: usize = 1024;
const IDLE: u64 = 0;

/// One thread's pin, alone on its line.
#[derive(Debug)]
#[repr(align(64))]
struct PinSlot {
    /// The epoch it pinned in, or [`IDLE`].
    pinned: AtomicU64,
    taken: AtomicBool,
}

static SLOTS: [PinSlot; THREADS_MAX] =
    [const { PinSlot { pinned: AtomicU64::new(IDLE), taken: AtomicBool::new(false) } }; THREADS_MAX];
/// Slots beyond this were never taken.
static SEATED: AtomicUsize = AtomicUsize::new(0);
static EPOCH: AtomicU64 = AtomicU64::new(1);
/// Of all threads that found no slot; it counts their pins.
static CROWD: PinSlot = PinSlot { pinned: AtomicU64::new(0), taken: AtomicBool::new(true) };

/// Gives the thread's slot back when the thread ends.
struct PinSeat(usize);

impl Drop for PinSeat {
    fn drop(&mut self) {
        SLOT.set(None);
        // A signal handler may have ended the thread while it was pinned.
        SLOTS[self.0].pinned.store(IDLE, Ordering::Release);
        SLOTS[self.0].taken.store(false, Ordering::Release);
    }
}

thread_local! {
    static SLOT: Cell<Option<&'static PinSlot>> = const { Cell::new(None) };
    static SEAT: Cell<Option<PinSeat>> = const { Cell::new(None) };
}

/// Holds space in place for as long as it lives.
#[derive(Debug)]
pub struct Pin {
    /// The thread's own, [`CROWD`], or none within another pin. One word, which stays in a register over a copy: what is
    /// stored waits behind all that the copy stores.
    slot: Option<&'static PinSlot>,
    _own_thread: PhantomData<*const ()>,
}

impl Pin {
    /// Returns a small number that no other living thread has, if the thread has one and this is its outermost pin. A
    /// thread changes the data kept under its seat only while pinned, so a thread that waits for pins may change it
    /// too.
    #[inline]
    pub fn seat(&self) -> Option<usize> {
        let slot = self.slot.filter(|slot| !std::ptr::eq(*slot, &CROWD))?;
        Some((std::ptr::from_ref(slot) as usize - SLOTS.as_ptr() as usize) / size_of::<PinSlot>())
    }
}

/// Pins for the calling thread.
#[inline]
pub fn pin() -> Pin {
    let slot = match SLOT.get() {
        Some(slot) => pin_slot(slot),
        None => pin_first(),
    };
    Pin { slot, _own_thread: PhantomData }
}

#[inline]
fn pin_slot(slot: &'static PinSlot) -> Option<&'static PinSlot> {
    if slot.pinned.load(Ordering::Relaxed) != IDLE {
        return None;
    }
    // Acquire: a waiter does not wait for a thread that found its epoch, so that thread must see everything before it
    // (P2).
    slot.pinned.store(EPOCH.load(Ordering::Acquire), Ordering::Relaxed);
    if Waiter::is_asymmetric() {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
    Some(slot)
}

#[cold]
fn pin_first() -> Option<&'static PinSlot> {
    let free = SLOTS.iter().position(|slot| !slot.taken.swap(true, Ordering::Acquire));
    let seated = free.filter(|index| SEAT.try_with(|seat| seat.set(Some(PinSeat(*index)))).is_ok());
    match seated {
        Some(index) => {
            SEATED.fetch_max(index + 1, Ordering::SeqCst);
            SLOT.set(Some(&SLOTS[index]));
            pin_slot(&SLOTS[index])
        }
        None => {
            if let Some(index) = free {
                SLOTS[index].taken.store(false, Ordering::Release);
            }
            CROWD.pinned.fetch_add(1, Ordering::SeqCst);
            Some(&CROWD)
        }
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        match self.slot {
            Some(slot) if !std::ptr::eq(slot, &CROWD) => slot.pinned.store(IDLE, Ordering::Release),
            Some(crowd) => drop(crowd.pinned.fetch_sub(1, Ordering::SeqCst)),
            None => {}
        }
    }
}

/// Returns when every pin that was held when it was called is gone (P1, P2).
pub fn wait_for_pins() {
    are_gone(|is_done| {
        spin_until(is_done);
        true
    });
}

/// Waits for earlier pins until `is_over` returns true: a thread may stay in a signal handler. Returns true if all are
/// gone.
pub fn wait_for_pins_until(is_over: impl Fn() -> bool) -> bool {
    are_gone(|is_done| {
        spin_until(|| is_done() || is_over());
        is_done()
    })
}

/// Returns true if every earlier pin is gone, each by the answer of `wait`.
fn are_gone(wait: impl Fn(&dyn Fn() -> bool) -> bool) -> bool {
    let now = EPOCH.fetch_add(1, Ordering::SeqCst) + 1;
    Waiter::barrier_everywhere();
    let is_gone = |slot: &PinSlot| {
        let pinned = slot.pinned.load(Ordering::Acquire);
        let is_later = pinned >= now && !planted!("memory: later pins are waited for");
        pinned == IDLE || is_later || planted!("memory: pins are not waited for")
    };
    SLOTS[..SEATED.load(Ordering::SeqCst)].iter().all(|slot| wait(&|| is_gone(slot)))
        && wait(&|| CROWD.pinned.load(Ordering::SeqCst) == 0)
}

/// Whether the calling thread is pinned.
pub fn is_pinned() -> bool {
    SLOT.get().is_some_and(|slot| slot.pinned.load(Ordering::Relaxed) != IDLE)
}

/// Ends the calling thread's pin, which is not dropped because a signal handler is about to jump out of the pinned
/// code.
pub fn end_own_pin() {
    if let Some(slot) = SLOT.get() {
        slot.pinned.store(IDLE, Ordering::Release);
    }
}

/// In a child of fork, which has this thread alone: the pins of the others are their parent's.
pub fn forget_other_threads() {
    let own = SLOT.get();
    for slot in SLOTS.iter().filter(|slot| own.is_none_or(|own| !std::ptr::eq(*slot, own))) {
        slot.pinned.store(IDLE, Ordering::SeqCst);
        slot.taken.store(false, Ordering::SeqCst);
    }
    CROWD.pinned.store(0, Ordering::SeqCst);
}

/// Orders earlier loads, also loads from a memory, before later ones: after a lookup without a lock the caller checks
/// that a version is unchanged.
#[inline]
pub fn order_loads() {
    fence(Ordering::Acquire);
}

/// Waits for another thread, which is done in a few hundred nanoseconds unless it is not running.
pub fn spin_until(done: impl Fn() -> bool) {
    let mut spins = 0_u32;
    while !done() {
        spins = spins.saturating_add(1);
        if spins < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

/// How a waiter makes other processors pass a barrier.
struct Waiter;

/// Whether the kernel does that for this process: 0 unknown, 1 no, 2 yes. No lock, which a child would find taken that is forked
/// while another thread asks: the kernel may be asked twice.
static KNOWN: AtomicU64 = AtomicU64::new(0);

impl Waiter {
    /// Whether pinning needs no fence of its own because the waiter makes every processor pass one.
    #[inline]
    fn is_asymmetric() -> bool {
        match KNOWN.load(Ordering::Relaxed) {
            0 => Self::learn(),
            known => known == 2,
        }
    }

    #[cold]
    fn learn() -> bool {
        let answer = 1 + u64::from(membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0);
        // The pinning and the waiting thread use the same method (P1).
        let known = KNOWN
            .compare_exchange(0, answer, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|known| known, |_| answer);
        known == 2
    }

    fn barrier_everywhere() {
        if planted!("memory: processors pass no barrier") {
            return;
        }
        if !Self::is_asymmetric() {
            return fence(Ordering::SeqCst);
        }
        // Threads pin without a fence, so no fence here can stand in for it. It fails for want of memory, which passes.
        while membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 {
            std::thread::yield_now();
        }
    }
}

/// Pins of threads of other processes, in words that they share with the waiting thread (P1, P2).
///
/// A word is odd while its thread is pinned and differs from pin to pin, so a waiter remembers the value that it saw. A
/// waiter never waits for good: the other process may be stopped.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// Whether a pin needs no fence of its own, because the kernel makes this process pass one for a waiter elsewhere.
    is_asymmetric: bool,
}

impl Foreign {
    /// Tells the kernel that waiters in other processes exist.
    pub fn register() -> Self {
        Self { is_asymmetric: membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 }
    }

    /// Pins in `word`, which is this thread's alone; `None` where it is pinned already, by what a signal interrupted.
    #[inline]
    pub fn pin(self, word: &AtomicU64) -> Option<ForeignPin<'_>> {
        let free = word.load(Ordering::Relaxed);
        if !free.is_multiple_of(2) {
            return None;
        }
        word.store(free + 1, Ordering::Relaxed);
        self.order();
        Some(ForeignPin { word, pinned: free + 1 })
    }

    /// Orders this thread's earlier stores before its later loads, for a process that calls [`barrier_abroad`].
    #[inline]
    pub fn order(self) {
        if self.is_asymmetric { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
    }
}

/// Pinned for a waiter in another process.
#[derive(Debug)]
pub struct ForeignPin<'word> {
    word: &'word AtomicU64,
    pinned: u64,
}

/// Ends a pin in `word`. Its thread has ended or is the calling one, so no thread uses the pinned place.
pub fn end_foreign_pin(word: &AtomicU64) {
    let pinned = word.load(Ordering::Relaxed);
    word.store(pinned.next_multiple_of(2), Ordering::Release);
}

impl Drop for ForeignPin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.word.store(self.pinned + 1, Ordering::Release);
    }
}

/// Makes every thread of every process that [registered](Foreign::register) pass a full barrier.
pub fn barrier_abroad() {
    loop {
        if membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0 {
            return;
        }
        match std::io::Error::last_os_error().raw_os_error() {
            // It fails for want of memory, which passes.
            Some(libc::ENOMEM) => std::thread::yield_now(),
            // No thread can register, and each pins with a fence.
            _ => return fence(Ordering::SeqCst),
        }
    }
}

fn membarrier(command: i32) -> i64 {
    // SAFETY: the call takes no pointer.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

#[cfg(test)]
mod tests;
