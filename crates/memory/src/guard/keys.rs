//! Protection keys (Intel SDM volume 3, 4.6.2; pkeys(7)): two bits for each of 16 keys in a register of each thread.
//!
//! One key per kind of guard serves every mapping of the process: there are only 15 to have, and a key that is freed
//! and given out again would keep the rights threads had to its old pages. So none is ever freed that was on a page.
//!
//! A thread that existed before the key was made may not even read (the kernel's default), nor may a handler of a signal, and
//! who jumps out of one goes on so; a later thread has its parent's rights. So each access looks at the register, which costs
//! less than a load from memory, and closes the key the way the guard means it where the register denies more.
#![allow(unsafe_code, reason = "the protection-key register and its system calls")]

use std::io;

use super::shield::Right;
use crate::{Error, Raced, Result};

const DENY_ALL: u32 = 1;
const DENY_WRITES: u32 = 2;

/// A protection key of this process and what it denies while closed.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    number: i32,
    shift: u32,
    closed: u32,
}

static DENYING_WRITES: Raced<Key> = Raced::new();
static DENYING_READS: Raced<Key> = Raced::new();

impl Key {
    /// The process's key of this kind, made at the first call.
    pub fn of(denies_reads: bool) -> Result<Self> {
        let (cell, closed) =
            if denies_reads { (&DENYING_READS, DENY_ALL | DENY_WRITES) } else { (&DENYING_WRITES, DENY_WRITES) };
        if let Some(key) = cell.get() {
            return Ok(*key);
        }
        let made = match allocate(closed) {
            Ok(made) => made,
            // Those who make one at the same moment may have had the last.
            Err(why) => return cell.get().copied().ok_or_else(|| no_key(&why)),
        };
        let key = *cell.fill(made);
        if key.number != made.number {
            made.give_back();
        }
        Ok(key)
    }

    /// Frees a key after another thread made one. This key was never on a page, and no thread has rights by it.
    fn give_back(self) {
        // As the kernel has it where a program has not asked for it.
        write_register(read_register() & !(3 << self.shift) | DENY_ALL << self.shift);
        // SAFETY: the system call takes an integer and touches no memory.
        unsafe { libc::syscall(libc::SYS_pkey_free, self.number) };
    }

    /// The number to give to `pkey_mprotect`.
    pub fn number(self) -> i32 {
        self.number
    }

    /// Whether a load needs a window.
    #[inline]
    pub fn denies_reads(self) -> bool {
        self.closed & DENY_ALL != 0
    }

    /// To load from the pages of the key.
    pub fn loads(self) -> KeyRights {
        KeyRights { mask: DENY_ALL << self.shift, value: 0 }
    }

    /// Makes sure that this thread may load, and has the key closed the way the guard means it or a window open.
    #[inline]
    pub fn ensure_closed(self) {
        if !self.loads().are_own() {
            self.close_now();
        }
    }

    #[cold]
    fn close_now(self) {
        write_register(self.closed_register());
    }

    /// Opens the key for this thread; gives the register's value that closes it.
    #[inline]
    pub fn open(self, right: Right) -> u32 {
        let closed = self.closed_register();
        let denied = if right == Right::Read { DENY_ALL } else { DENY_ALL | DENY_WRITES };
        write_register(closed & !(denied << self.shift));
        closed
    }

    #[inline]
    fn closed_register(self) -> u32 {
        (read_register() & !(3 << self.shift)) | self.closed << self.shift
    }
}

/// What some bits of the register say.
#[derive(Clone, Copy, Debug)]
pub struct KeyRights {
    mask: u32,
    value: u32,
}

impl KeyRights {
    /// Those that every thread has.
    pub const ANY: Self = Self { mask: 0, value: 0 };
    /// Those that none has.
    pub const NONE: Self = Self { mask: 0, value: 1 };

    /// Whether this thread has them at this moment.
    #[inline(always)]
    pub fn are_own(self) -> bool {
        // Without a key there may be no register.
        let found = if self.mask == 0 { 0 } else { read_register() & self.mask };
        found == self.value
    }
}

/// Closes what [`Key::open`] opened.
#[inline]
pub fn close(register: u32) {
    write_register(register);
}

#[cfg(target_arch = "x86_64")]
fn allocate(closed: u32) -> io::Result<Key> {
    // The rights hold for this thread and the threads it makes from here on: the key is closed before any access.
    // SAFETY: the system call takes two integers and touches no memory.
    let number = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, closed) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Key { number: number as i32, shift: 2 * number as u32, closed })
}

#[cfg(not(target_arch = "x86_64"))]
fn allocate(_: u32) -> io::Result<Key> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

fn no_key(why: &io::Error) -> Error {
    Error::Unsupported(format!("no protection key ({why}): use the guard none, private or pagetable"))
}

/// Not `nomem`: no access may move across a change of the register, in the compiler either.
#[cfg(target_arch = "x86_64")]
#[inline]
fn write_register(value: u32) {
    // SAFETY: a key exists, so the instruction does; the value only changes rights to pages that keys of this
    // process cover.
    unsafe {
        std::arch::asm!("wrpkru", in("eax") value, in("ecx") 0, in("edx") 0, options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_register() -> u32 {
    let value: u32;
    // SAFETY: a key exists, so the instruction does; it clears edx and changes nothing else.
    unsafe {
        std::arch::asm!("rdpkru", out("eax") value, in("ecx") 0, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    value
}

#[cfg(not(target_arch = "x86_64"))]
fn write_register(_: u32) {}

#[cfg(not(target_arch = "x86_64"))]
fn read_register() -> u32 {
    0
}

#[cfg(test)]
pub(super) mod tests;
