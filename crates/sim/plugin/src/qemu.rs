//! What is used of QEMU's plugin interface, version 1, and of the C library by which it forks.

use std::ffi::{c_int, c_uint, c_void};

use crate::access_meaning::{AccessMeaning, MemInfo};

/// What QEMU calls this plugin.
pub type PluginId = u64;

/// A translated block.
#[repr(C)]
pub struct TranslatedBlock([u8; 0]);

/// An instruction of it.
#[repr(C)]
pub struct Instruction([u8; 0]);

/// A callback that looks at no registers.
pub const NO_REGISTERS: c_int = 0;

/// Accesses of both kinds.
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
        callback: extern "C" fn(c_uint, MemInfo, u64, *mut c_void),
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
    // These compute with a number alone, whatever it is, and the last is passed no memory.
    safe fn qemu_plugin_mem_is_store(how: MemInfo) -> bool;
    safe fn qemu_plugin_mem_size_shift(how: MemInfo) -> c_uint;
    safe fn kill(process: c_int, signal: c_int) -> c_int;
    pub fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// What `how` means, as QEMU tells.
pub fn made(how: MemInfo) -> AccessMeaning {
    AccessMeaning { is_write: qemu_plugin_mem_is_store(how), size_shift: qemu_plugin_mem_size_shift(how) }
}

/// Ends the process. QEMU takes other signals, that of an abort too, for the program's, and has all its threads stand still
/// for them: which they do not while they wait for one another here.
pub fn end() -> ! {
    const SIGKILL: c_int = 9;
    loop {
        kill(std::process::id() as c_int, SIGKILL);
    }
}
