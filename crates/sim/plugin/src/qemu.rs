//! The parts that are used of QEMU's plugin interface, version 1, and of the C library through which QEMU forks.

use std::ffi::{c_int, c_uint, c_void};

use crate::access_meaning::{AccessMeaning, QemuAccess};

/// The id that QEMU gives this plugin.
pub type PluginId = u64;

/// A translated block.
#[repr(C)]
pub struct TranslatedBlock([u8; 0]);

/// An instruction of a translated block.
#[repr(C)]
pub struct Instruction([u8; 0]);

/// A callback that reads no registers.
pub const NO_REGISTERS: c_int = 0;

/// Both kinds of accesses.
pub const READS_AND_WRITES: c_int = 3;

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: extern "C" fn(PluginId, *mut TranslatedBlock));
    pub fn qemu_plugin_register_atexit_cb(
        id: PluginId,
        callback: extern "C" fn(PluginId, *mut c_void),
        given: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const TranslatedBlock) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const TranslatedBlock, at: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: extern "C" fn(c_uint, QemuAccess, u64, *mut c_void),
        registers: c_int,
        kinds: c_int,
        given: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: extern "C" fn(c_uint, *mut c_void),
        registers: c_int,
        given: *mut c_void,
    );
    // These functions compute with a number alone, for any number, and the last gets no memory.
    safe fn qemu_plugin_mem_is_store(how: QemuAccess) -> bool;
    safe fn qemu_plugin_mem_size_shift(how: QemuAccess) -> c_uint;
    safe fn kill(process: c_int, signal: c_int) -> c_int;
    pub fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// Returns the meaning of `how`, as QEMU decodes it.
pub fn made(how: QemuAccess) -> AccessMeaning {
    AccessMeaning { is_write: qemu_plugin_mem_is_store(how), size_shift: qemu_plugin_mem_size_shift(how) }
}

/// Ends the process with SIGKILL. QEMU takes other signals, abort included, for the program's own and stops all its
/// threads for them. Threads that wait for one another here would never stop.
pub fn end() -> ! {
    const SIGKILL: c_int = 9;
    loop {
        kill(std::process::id() as c_int, SIGKILL);
    }
}
