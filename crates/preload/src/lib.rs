//! The library that `ferrite run` loads into unmodified programs: reads and writes of files on a mount become copies
//! from and to persistent memory in the program's own address space ([`ferrite_fs_client`]).
//!
//! A file is really opened, through the kernel: the descriptor stays the anchor for everything that is not done here.
//!
//! ```text
//! descriptor --table--> description (offset, flags) --> file (inode) --> lease
//!   an array of         one for each open, shared       one for each     asked for at the eighth call,
//!   pointers            by dup                          inode            given back at the last close
//! ```
//!
//! - LD1. What cannot be done directly is done by the kernel, with the arguments that the program gave; a call is never
//!   done in part by one and again by the other.
//! - LD2. A description's offset is in one place: here, or, from the moment anybody else may use it (a child, another
//!   process, stdio, who writes by a number while it is replaced), in the kernel for good. The kernel's is set while it is here,
//!   by one thread at a time, which also says whose it is then; and by nobody while the kernel appends for another one, until
//!   that knows where the append ended. A call moves it once, however many buffers it has. Of standard input, output and error
//!   it is in the kernel at every moment, and a call claims its place there before it copies; what appends is the kernel's
//!   there.
//! - LD3. An entry of the table belongs to the descriptor that the program has: whatever closes or replaces one takes
//!   the entry away first, leaving one by which all is the kernel's until that is done, and whatever gives a new one out
//!   takes away what still stands under its number. What was begun by a descriptor that is replaced is waited for, by each
//!   of those who replace it at once, but not for long. What two calls under way close or replace, and a copy of what was
//!   replaced amid the copying, is the kernel's until it is closed: nobody knows which of them the kernel did first.
//! - LD4. A data call on a leased file takes no lock, makes no system call (but for standard input, output and error, and
//!   where others have the descriptor, whose flags are then asked for) and allocates nothing; but for the first write of
//!   a thread, and an append for which there are no pages left, which do that inside (LD5).
//! - LD5. A call that comes while this thread is in here, from what we call, goes to the kernel as it is: nothing here waits
//!   for what its own thread holds, nor for long for what another one uses, which may stand still in a handler. No signal's
//!   handler comes meanwhile but for a fault or a trap, and nobody cancels the thread. A handler that interrupts what needs
//!   no lock may do anything.
//! - LD6. A child made by fork, however it is made, knows nothing of its parent's files but which of them are mapped: the
//!   table's memory is wiped. It waits for no thread that it does not have: a lock that it needs was held over the fork by who
//!   forked, and what is found at its first use several threads may find at once ([`ferrite_memory::Raced`]). One for which nothing
//!   was prepared needs none, and not the loader's either, which may be loading a library.
//! - LD7. Before the kernel does something by the size of a file of ours it is made to ask for that size: by itself it asks
//!   only to read and to tell it. So it is for descriptors that are not in the table: who left or sent one may write on.
//! - LD8. A file is worked on directly by who serves the very mount that it was opened on: the same number means another
//!   file where the pool was mounted anew, or where another pool has the path.
//! - LD9. Who can be neither root nor the user any more as whom it was let in has nothing of a pool when the call that made it so
//!   returns: no mapping, no descriptor, no connection to an owner. An owner lets it in anew, or not. What rights it has beside
//!   its user does not count there, and so not here.
//!
//! Not caught: system calls that pass the C library's names by (inline assembly), where they close or copy a descriptor of
//! ours, use its offset, or make a child that shares it; limits on file sizes that another process sets; descriptors that
//! another process takes (`pidfd_getfd`).

// What only programs call is left out of the tests: it would stand in for the C library's in them too.
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
mod own_fds;
mod real;
mod reentrancy;
mod signals;
mod size_limit;

/// Memory of our own: the program may be inside its allocator when a signal handler calls us.
#[cfg(not(test))]
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
