//! A plugin of QEMU's user mode: passes a program's accesses through a first-level cache, and sends the events of the
//! last level to the recording process.
//!
//! The build script of `ferrite-sim` compiles this plugin separately, and the crate contains the result and gives it to
//! QEMU. So the plugin uses nothing but the standard library and the source of the first level.
//!
//! ```text
//! ring:   HELLO, then frames of 64-bit words: [number of events] [accesses since the last frame] [events..]
//!         a frame with LAST as its number of events is the end
//! ```
//!
//! 1. Each thread of the program is a core; only its own thread touches a core, so a core needs no lock.
//! 2. Frames are sent whole, under one lock.
//! 3. A forked child sends nothing: it is another process, and its parent sends the events that the child inherited.
//!    The parent sets a word in the ring that says that a child exists.

#![allow(unsafe_code)] // the interface of QEMU is C

mod access_meaning;
mod event_pipe;
#[path = "../../src/cache/l1.rs"]
mod l1;
mod qemu;
mod recorded_core;
#[path = "../../src/record/shared_ring.rs"]
mod shared_ring;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::access_meaning::QemuAccess;
use crate::event_pipe::EventPipe;
use crate::qemu::{PluginId, TranslatedBlock};
use crate::recorded_core::{Core, CoreShape};

/// The most threads that run at a time. One more ends the program with a message.
const CORES: usize = 1024;

/// The version of QEMU's plugin interface that this plugin implements; QEMU 7.2 and newer accept it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

static CORE: [AtomicPtr<Core>; CORES] = [const { AtomicPtr::new(null_mut()) }; CORES];

static RECORDING: OnceLock<(CoreShape, Mutex<EventPipe>)> = OnceLock::new();

/// QEMU calls this once with the words after the plugin's name; 0 means success.
///
/// # Safety
/// `argv` must point to `argc` C strings, as QEMU passes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let word = |at: usize| {
        // SAFETY: `at` is below `argc`, so a C string is there.
        unsafe { CStr::from_ptr(*argv.add(at)) }.to_string_lossy().into_owned()
    };
    let words: Vec<String> = (0..argc as usize).map(word).collect();
    match begin(&words) {
        Ok(recording) => {
            let _ = RECORDING.set(recording);
            // SAFETY: QEMU gave the id; the functions live as long as the program; and QEMU forks through the C
            // library.
            unsafe {
                qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
                qemu::qemu_plugin_register_atexit_cb(id, ended, null_mut());
                qemu::pthread_atfork(None, Some(forked), None);
            }
            0
        }
        Err(why) => {
            eprintln!("ferrite: recording: {why}");
            1
        }
    }
}

fn begin(words: &[String]) -> Result<(CoreShape, Mutex<EventPipe>), String> {
    let value = |name: &str| {
        let found = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.ok_or_else(|| format!("{name} is missing"))
    };
    let number = |name: &str| value(name)?.parse().map_err(|_| format!("{name} is not a number"));
    let shape = CoreShape {
        sets: number("sets")?,
        ways: number("ways")?,
        line_bits: number("line_bits")? as u32,
        instructions: number("instructions")? != 0,
    };
    Ok((shape, Mutex::new(EventPipe::open(value("pipe")?)?)))
}

/// QEMU translated a block of the program: registers the callbacks for its accesses.
extern "C" fn translated(_: PluginId, block: *mut TranslatedBlock) {
    let Some((shape, _)) = RECORDING.get() else { return };
    // SAFETY: the block is valid during this call, and `number` is below the number of its instructions.
    unsafe {
        for number in 0..qemu::qemu_plugin_tb_n_insns(block) {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, number);
            let at = qemu::qemu_plugin_insn_vaddr(instruction);
            qemu::qemu_plugin_register_vcpu_mem_cb(
                instruction,
                accessed,
                qemu::NO_REGISTERS,
                qemu::READS_AND_WRITES,
                usize::from(l1::signature(at)) as *mut c_void,
            );
            if shape.instructions {
                let bytes = qemu::qemu_plugin_insn_size(instruction) as u64;
                let lines = recorded_core::packed_lines(at, bytes, shape.line_bits);
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(instruction, fetched, qemu::NO_REGISTERS, lines);
            }
        }
    }
}

/// An instruction with this signature accessed memory.
extern "C" fn accessed(thread: u32, how: QemuAccess, address: u64, signature: *mut c_void) {
    if let Some(core) = core_of(thread) {
        core.access(address, how, signature as usize as u8);
    }
}

/// An instruction was fetched.
extern "C" fn fetched(thread: u32, lines: *mut c_void) {
    if let Some(core) = core_of(thread) {
        core.fetch(lines);
    }
}

/// The program ends: sends the remaining events.
extern "C" fn ended(_: PluginId, _: *mut c_void) {
    for core in &CORE {
        // SAFETY: rule 1; no thread of the program runs any more, and QEMU calls this once.
        if let Some(core) = unsafe { core.load(Ordering::Acquire).as_mut() } {
            core.drain();
        }
    }
    if let Some((_, pipe)) = RECORDING.get() {
        pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).end();
    }
}

/// The program started another process, which is not recorded.
extern "C" fn forked() {
    if let Some((_, pipe)) = RECORDING.get() {
        pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).forked();
    }
}

#[inline]
fn core_of(thread: u32) -> Option<&'static mut Core> {
    let place = CORE.get(thread as usize).unwrap_or_else(|| too_many());
    // SAFETY: rule 1: QEMU numbers its threads, so only the current thread uses this number; a core is never freed.
    unsafe { place.load(Ordering::Relaxed).as_mut() }.or_else(|| new_core(place))
}

/// Ends the program, because the accesses of further threads would be missing.
#[cold]
fn too_many() -> ! {
    eprintln!("ferrite: recording: the program has more than {CORES} threads at a time");
    qemu::end()
}

#[cold]
fn new_core(place: &AtomicPtr<Core>) -> Option<&'static mut Core> {
    let (shape, pipe) = RECORDING.get()?;
    let core = Box::leak(Box::new(Core::new(*shape, pipe)));
    place.store(core, Ordering::Release);
    Some(core)
}
