//! The library that `ferrite run` loads into unmodified programs: reads and writes of files on a mount become copies
//! from and to persistent memory in the program's own address space ([`ferrite_fs_client`]).
//!
//! A file is really opened, through the kernel: the descriptor stays the anchor for every call that is not direct.
//!
//! ```text
//! descriptor --table--> description (offset, flags) --> file (inode) --> lease
//!             an array of   one for each open, shared    one for each     requested at the eighth call,
//!             pointers      by dup                       inode            released at the last close
//! ```
//!
//! - LD1. A call that cannot be direct is done by the kernel, with the program's arguments; no call is done in part by
//!   one and again by the other.
//! - LD2. A description's offset is in one place: here, or, from the moment another user may exist (a child, another
//!   process, stdio, a writer by a number that is being replaced), in the kernel for good. While the offset is here,
//!   one thread at a time sets the kernel's, and also records its owner; no thread sets it while the kernel appends for
//!   another, until the end of that append is known. A call moves the offset once, with any number of buffers. The
//!   offset of standard input, output and error is in the kernel at every moment, and a call claims its place there
//!   before it copies; appends are the kernel's there.
//! - LD3. An entry of the table belongs to the program's descriptor. A call that closes or replaces a descriptor first
//!   replaces its entry by a gate, by which all is the kernel's until the call is done. A call that returns a new
//!   descriptor removes a remaining entry of its number. Each of several threads that replace a descriptor waits for
//!   calls that had begun by it, but not for long. A descriptor that two concurrent calls close or replace, and a copy
//!   of one that was replaced during the copy, is the kernel's until it is closed: the kernel's order is unknown.
//! - LD4. A data call on a leased file takes no lock, makes no system call and allocates nothing. Exceptions: standard
//!   input, output and error; a descriptor that other processes have, whose flags are queried; a thread's first write;
//!   and an append without free pages. The last two work inside (LD5).
//! - LD5. A call from a thread that is inside already goes to the kernel unchanged. No thread waits for what it holds
//!   itself, nor for long for what another one uses, which may stand still in a handler. Inside, no signal handler runs
//!   except for a fault or a trap, and no thread is cancelled. A handler that interrupts lock-free code may do
//!   anything.
//! - LD6. A child made by fork, in any way, knows of its parent's files only which are mapped: the table's memory is
//!   wiped. It waits for no thread that it does not have: the forking thread held every needed lock over the fork, and
//!   several threads may race to initialize a value ([`ferrite_memory::Raced`]). A child without preparation needs no
//!   lock, not even the loader's.
//! - LD7. Before the kernel uses the size of a file on a mount, it is made to query that size: by itself it does so
//!   only for reads and fstat. This includes descriptors without an entry: their sender may write on.
//! - LD8. Only the server of the very mount on which a file was opened works on it directly: after a new mount of the
//!   pool, or of another pool at its path, the same number means another file.
//! - LD9. A program that can be neither root nor its admitted user any more has no mapping, no descriptor and no
//!   connection of a pool when the call that made it so returns. An owner may admit it again. Rights beside the user do
//!   not count.
//!
//! - LD10. A mapping of the file that stands for a guest (`ferrite guest run`) is the guest's whole region, or it fails
//!   with a reason on standard error. No mapping of it shows other bytes, and no write to the file succeeds.
//! - LD11. While the region is mapped, no call unmaps, moves or protects a part of it, removes its pages, maps something
//!   over it, or changes the user: such a call fails. A child has no region, and may map it when its parent has ended.
//!
//! Not caught: system calls that bypass the C library's names (inline assembly) and close or copy a descriptor, use its
//! offset, or make a child that shares it; limits on file sizes that another process sets; descriptors that another
//! process takes (`pidfd_getfd`).

// Functions that only programs call are left out of the tests, where they would replace the C library's.
#![cfg_attr(test, allow(dead_code))]

mod call_tally;
mod closing_fd;
mod copied_fd;
mod deferred_drop;
mod description;
mod entries;
mod fd_table;
mod ferrite_mounts;
mod fork_handlers;
mod fork_lock;
mod known_files;
mod leased_file;
mod mapped_region;
mod own_fds;
mod real;
mod reentrancy;
mod signals;
mod size_limit;
mod wipe_mark;

/// An allocator of its own: the program may be inside its allocator when a signal handler calls this library.
#[cfg(not(test))]
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
