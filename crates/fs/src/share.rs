//! Clients beside the owner, which read and write files of a mounted file system by themselves.
//!
//! ```text
//!   owner's process                        client's process
//!   FileSystem --- Desk  <--- control socket --- Session --- Lease (of an inode)
//!        |           |                             |           |
//!        +-- board --+------- the same words ------+-----------+
//!        +-- pool's memory -- the same bytes ------+-----------+
//! ```
//!
//! A session is one grant of the pool on the file system's tag, for one process. A client does what the owner's own
//! threads do without a lock (`locks`), over the same words and bytes; whatever it does not find right away it says
//! nothing of, and its caller goes through the mount.
//!
//! - FG1. A client acts on an inode only under a lease whose state, looked at after all it copied, still allows that, while
//!   the owner lives. What it did and cannot vouch for is done again by its caller through the mount: the same bytes at the
//!   same place.
//! - FG2. A client stores only while it is pinned, to places that it looked up under that pin and an even version; its
//!   fence comes before the pin ends, and may come after all that it looks at. What is freed is used again only when the
//!   pins of before are gone, or their processes; nobody waits for them for long.
//! - FG3. Who copies content, or makes a client's right end, first makes that seen and then lets every client pass a
//!   barrier: a store that comes later is one whose client will find out (FG1). So nothing here waits for a client.
//! - FG4. Readers hold nothing: what they copied counts only if nothing changed meanwhile.
//! - FG5. Grants that stand on a tag when its file system is opened are of clients of an owner that was killed. Until
//!   their processes have ended, or have let go, or are let in anew and hold them no more, or their board, on which no owner
//!   is, says behind a barrier that none of their threads is pinned, nothing is taken from the chunks that there were, and
//!   nothing that is freed is used again.
//! - FG6. A right to store to a file and copies of it that others keep exclude each other: the right begins when all copies
//!   are gone, and ends before one is made.
//! - FG7. The end of a file is one's at a time: a client's that may append, for one append, or the owner's, for as long as
//!   it holds the file's lock. One that was stopped at the end loses it: whatever it does later is in vain, and so is a size
//!   that it stored and does not vouch for; it finds out. A size is stored when the bytes before it are durable,
//!   or with a proof of them (`checksum`).
//! - FG8. Before copies of a file that was appended to directly are forgotten, the kernel has learned where it ends.
//! - FG9. Nobody has a right to store to a program with rights of its own (set-id bits, capabilities). Who is given a right
//!   is in the books before the program is looked at, and who gives a program rights ends what is in the books after that.
//! - FG10. Who withdraws from a session has nothing of the pool on return, whoever is amid a copy. The board goes before the
//!   memory: what was copied from or to the zeros in its place is found out behind the copy (FG1), and done through the mount.
//! - FG11. No client appends between the requests that the kernel makes of one append. Who may be given the right to has waited for
//!   the kernel's lock of the file since the last request behind which there may be another one.
//! - FG12. A client maps a pool only if root or the client's own user owns the file and no other user may write to it:
//!   a user that shortens a file ends the programs that have it mapped.

pub(crate) mod append_pages;
pub(crate) mod appenders;
pub(crate) mod client_link;
pub(crate) mod client_listener;
pub(crate) mod client_pins;
pub(crate) mod file_times;
pub mod layout;
pub(crate) mod leases;
pub(crate) mod orphaned_clients;
pub(crate) mod sessions;
pub(crate) mod shared_files;
pub(crate) mod stopped_append;

pub use client_listener::ClientListener;
pub use sessions::CachedCopies;
