//! The signal handler and what it prints. It writes to a buffer on its own stack and calls nothing but `write`,
//! `sigaction` and `raise`, as signal-safety(7) allows.
#![allow(unsafe_code, reason = "a signal handler")]

use std::fmt::{self, Write};
use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use super::{FaultHit, find};
use crate::{Error, Result};

/// Linux's code for a fault that a protection key raised (siginfo.h).
const SEGV_PKUERR: i32 = 4;
const SEGV_ACCERR: i32 = 2;
/// Codes up to this one belong to signals sent by a process: no instruction is repeated, and there is no address.
const SENT: i32 = 0;
/// The bit of a page fault's error code that says it was a write (Intel SDM volume 3, 4.7).
const WRITE_FAULT: i64 = 2;
const REPORT_BYTES: usize = 768;

/// What handled the signals before, and where the program lies.
struct Before {
    segv: libc::sigaction,
    bus: libc::sigaction,
    program: usize,
}

static BEFORE: OnceLock<Before> = OnceLock::new();

/// Reports, from now on, every access to a mapping that its guard or its host refuses, and then dies by it: which byte
/// of which pool, by what instruction, and why. Other faults go to whatever handled them before. The report uses the
/// alternate stack that the standard library gives each of its threads.
///
/// # Errors
/// [`Error::Io`] where the system refuses the handler.
pub fn install() -> Result<()> {
    let (segv, bus) = (current(libc::SIGSEGV)?, current(libc::SIGBUS)?);
    if BEFORE.set(Before { segv, bus, program: program_base() }).is_err() {
        return Ok(());
    }
    // SAFETY: all zeros is a valid value: no flag, an empty mask.
    let mut ours: libc::sigaction = unsafe { zeroed() };
    ours.sa_sigaction = handle as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    [libc::SIGSEGV, libc::SIGBUS].into_iter().try_for_each(|signal| set(signal, &ours))
}

fn current(signal: i32) -> Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: only asks; the struct is ours to fill, and is filled where the call succeeds.
    match unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } {
        // SAFETY: filled by the call.
        0 => Ok(unsafe { action.assume_init() }),
        _ => Err(Error::last_os("asking for a signal's handler")),
    }
}

fn set(signal: i32, action: &libc::sigaction) -> Result<()> {
    // SAFETY: the action is the previous one, the default, or `handle`, which keeps to what a handler may do.
    let done = unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(Error::last_os("setting a signal's handler")) }
}

/// Where the program was loaded, so that an instruction can be found in its file.
fn program_base() -> usize {
    // SAFETY: all zeros is a valid value of this struct of pointers.
    let mut found: libc::Dl_info = unsafe { zeroed() };
    // SAFETY: the struct is ours to fill.
    unsafe { libc::dladdr(handle as *const () as *const libc::c_void, &mut found) };
    found.dli_fbase as usize
}

/// Returning repeats the faulting instruction, which then meets the handler set here. A signal sent by a process ends
/// the program, as without a handler.
extern "C" fn handle(signal: i32, about: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO both structs.
    let (address, code, registers) = unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        ((*about).si_addr() as usize, (*about).si_code, &context.uc_mcontext.gregs)
    };
    let access = FaultAccess {
        signal,
        code,
        writes: registers[libc::REG_ERR as usize] & WRITE_FAULT != 0,
        instruction: registers[libc::REG_RIP as usize] as usize,
    };
    let is_sent = code <= SENT;
    let next = match find(address) {
        _ if is_sent => default_action(),
        Some(hit) => {
            print(&hit, &access);
            default_action()
        }
        None => previous(signal),
    };
    // SAFETY: an action that was in force before, or the default; what is raised comes as soon as this returns.
    unsafe {
        libc::sigaction(signal, &next, ptr::null_mut());
        if is_sent {
            libc::raise(signal);
        }
    }
}

fn default_action() -> libc::sigaction {
    // SAFETY: all zeros is SIG_DFL with no flag and an empty mask.
    unsafe { zeroed() }
}

fn previous(signal: i32) -> libc::sigaction {
    match BEFORE.get() {
        Some(before) if signal == libc::SIGBUS => before.bus,
        Some(before) => before.segv,
        None => default_action(),
    }
}

/// One refused access.
struct FaultAccess {
    signal: i32,
    code: i32,
    writes: bool,
    instruction: usize,
}

fn print(hit: &FaultHit, access: &FaultAccess) {
    let mut report = FaultReport { bytes: [0; REPORT_BYTES], len: 0 };
    // A report that does not fit is cut short, which is all that can be done here.
    let _ = compose(&mut report, hit, access);
    // SAFETY: the bytes are on this stack.
    unsafe { libc::write(libc::STDERR_FILENO, report.bytes.as_ptr().cast(), report.len) };
}

fn compose(report: &mut FaultReport, hit: &FaultHit, access: &FaultAccess) -> fmt::Result {
    let what = if access.writes { "write to" } else { "read of" };
    if access.signal == libc::SIGBUS {
        write!(report, "ferrite: the host gave no page for a {what} byte {} of ", hit.at)?;
    } else {
        write!(report, "ferrite: stray {what} byte {} of ", hit.at)?;
    }
    hit.slot.name.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|byte| *byte != 0).for_each(|byte| {
        report.push(byte);
    });
    report.write_str(match (access.signal, access.code) {
        (libc::SIGBUS, _) => ": its disk is full or cannot be read, its file was cut short, or its memory failed",
        (_, SEGV_PKUERR) => ": denied by its protection key",
        (_, SEGV_ACCERR) => ": denied by its page protection",
        _ => ": not mapped any more",
    })?;
    let program = BEFORE.get().map_or(0, |before| before.program);
    let offset = access.instruction.wrapping_sub(program);
    writeln!(
        report,
        ". Instruction at {:#x} (program + {offset:#x}). Nothing was changed by it. Stopping.",
        access.instruction
    )
}

/// Text on the stack.
struct FaultReport {
    bytes: [u8; REPORT_BYTES],
    len: usize,
}

impl FaultReport {
    fn push(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.len) {
            *free = byte;
            self.len += 1;
        }
    }
}

impl Write for FaultReport {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}
