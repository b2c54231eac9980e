//! Clients beside the owner, which read and write files of a mounted file system by themselves.
//!
//! ```text
//!   owner's process                             client's process
//!   FileSystem --- Sessions <--- control socket --- FsSession --- FileLease (of an inode)
//!        |            |                                |             |
//!        +-- shared state --- the same words ----------+-------------+
//!        +-- pool's memory -- the same bytes ----------+-------------+
//! ```
//!
//! A session is one grant of the pool on the file system's tag, for one process. A client does what the owner's
//! threads do without a lock (`locks`), over the same words and bytes. Whatever it does not find at once goes through
//! the mount.
//!
//! - FG1. A client acts on an inode only under a lease, while the owner lives. It checks the state of the lease after
//!   all its copies. If the state does not allow an operation any more, its caller repeats it through the mount: the
//!   same bytes at the same place.
//! - FG2. A client stores only while it is pinned, to places that it looked up under that pin and an even version. Its
//!   fence comes before the pin ends, and may follow all its checks. Freed space is used again only when all earlier
//!   pins have ended, or their processes have. No thread waits long for them.
//! - FG3. Before the owner copies content or ends a client's right, it publishes that and then has every client pass a
//!   barrier. A client whose store comes later will notice (FG1). So the owner waits for no client here.
//! - FG4. Readers hold nothing: their copies count only if nothing changed during the read.
//! - FG5. Grants that stand on a tag when its file system is opened belong to clients of an owner that was killed.
//!   Nothing is allocated from existing chunks, and no freed space is used again, until each of these clients is known
//!   not to store. That is so if its process has ended, has released the grant, has connected again without it, or if
//!   its shared state has no owner and shows behind a barrier that no thread is pinned.
//! - FG6. A right to store to a file and copies of it that others keep exclude each other: the right begins when all
//!   copies are gone, and ends before one is made.
//! - FG7. The end of a file has one holder at a time: a client that may append, for one append, or the owner, for as
//!   long as it holds the file's lock. A client that stops at the end loses it: its later stores are void, and so is a
//!   size that it stored but has not reported. It will notice. A size is stored when the bytes before it are durable,
//!   or with a checksum of them (`append_checksum`).
//! - FG8. Before a kernel drops cached copies of a file that was appended to directly, it has learned the end of the
//!   file.
//! - FG9. No client may store to a program with rights of its own (set-id bits, capabilities). A right is entered in
//!   the session table before the program's attributes are checked. Before a program gains rights, all rights in the
//!   table end.
//! - FG10. After a client withdraws from a session it has nothing of the pool, even if threads are within a copy. The
//!   shared state is unmapped before the memory: copies from or to the zeros in its place are noticed afterwards
//!   (FG1), and go through the mount.
//! - FG11. No client appends between the requests that the kernel makes of one append. Before a client gains the
//!   right, it has waited for the kernel's lock of the file since the last request that another one may follow.
//! - FG12. A client maps a pool only if root or the client's own user owns the file and no other user may write to it:
//!   a user that shortens a file ends the programs that have it mapped.
//! - FG13. The owner overwrites bytes for a client that has them in the transfer area of its session. The lease and the
//!   end of the file are checked under the file's lock, which the end of a right needs too (FG6). So no such overwrite
//!   follows the end of a right or moves the end of the file. An area has one session until all of its requests have ended.

pub(crate) mod append_pages;
pub(crate) mod appenders;
pub(crate) mod client_link;
pub(crate) mod client_listener;
pub(crate) mod client_pins;
pub(crate) mod client_transfer;
pub(crate) mod file_times;
pub mod layout;
pub(crate) mod leases;
pub(crate) mod orphaned_clients;
pub(crate) mod sessions;
pub(crate) mod shared_files;
pub(crate) mod stopped_append;

pub use client_listener::ClientListener;
pub use sessions::CachedCopies;
