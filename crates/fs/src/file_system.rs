//! A file system that is open: what its users call.

mod client_service;
pub mod held_tier;

use std::ops::Range;
use std::sync::Arc;

use ferrite_memory::Memory;
use ferrite_pool::{Format, Freeze, Pool, ProgressWatch, Tag};

use crate::file::{allocate, fsync, read, write};
use crate::file_system::held_tier::HeldTier;
use crate::share::layout::shared_state::DirectRequest;
use crate::share::shared_files::SharedFiles;
use crate::store::create_fs;
use crate::store::tier_joining;
use crate::store::tier_members::{TierDisk, TierOpening};
use crate::tier::{self, trim_segments};
use crate::tier_upkeep::TierUpkeep;
use crate::tree::{create, inode_lifetime, lookup, remove, rename, setattr, statfs, xattr};
use crate::{
    Allocate, Attr, Credentials, DataMode, DirEntry, FsOptions, FsSpec, Ino, ListedEntry, NewFile, Rename, Result,
    Seek, SetAttr, SetXattr, Statfs, TierReport, TierStats, reclaim,
};

/// The name of a file system that has its pool for itself.
const ALONE_NAME: &str = "files";

/// An open file system in a pool, shared between threads. A change is durable on return, except for written data and
/// times of files under [`DataMode::Posix`], and times of last access.
///
/// Every call can fail with [`crate::Error::Stale`] for an inode number that is not or no longer in use, with
/// [`crate::Error::Corrupt`] for content that this program cannot have written, and with an error of the pool in
/// [`crate::Error::Pool`]. After a failed persist every change is refused until the pool is opened again. Every change
/// can fail with [`crate::Error::ReadOnly`] and with [`crate::Error::NoSpace`]. After [`crate::Error::NoSpace`]
/// content and names are unchanged, unless the host had no space for bytes that were stored already, which is a failed
/// persist.
pub struct FileSystem {
    pub(crate) shared: Arc<SharedFiles>,
}

impl FileSystem {
    /// Makes a file system called `name` with an empty root directory. Durable on return, or not made.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Exists`] and [`ferrite_pool::Error::BadName`] of `name`, [`crate::Error::NoSpace`] where
    /// the pool has no room for it.
    pub fn create(pool: &Pool, name: &str, spec: &FsSpec) -> Result<()> {
        create_fs::create(pool, name, spec)
    }

    /// Removes the file system called `name` with all its files. It must not be open; refused while a client of it
    /// lives.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotFound`], [`ferrite_pool::Error::WrongKind`] and [`ferrite_pool::Error::Limit`] as
    /// [`FileSystem::open`]; [`ferrite_pool::Error::Busy`] beside such a client.
    pub fn remove(pool: &Pool, name: &str) -> Result<()> {
        create_fs::remove(pool, name)
    }

    /// Opens the file system called `name`. The caller opens it only once at a time. Takes the same time for any
    /// number of files, except after a crash with thousands of open files without a name. If a fence is not durable,
    /// call [`FileSystem::flush`] before the last handle is dropped: otherwise waiting sizes are lost, as in a crash.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotFound`] and [`ferrite_pool::Error::WrongKind`] if no file system has this name.
    /// [`ferrite_pool::Error::Limit`] if only a newer Ferrite knows its version. [`crate::Error::NoSpace`] if the pool
    /// was grown and has no room for a larger table. Otherwise as [`FileSystem`].
    pub fn open(pool: Arc<Pool>, name: &str, options: FsOptions) -> Result<Arc<Self>> {
        let open = &|_: &str| Err("it was opened without SSDs".into());
        Self::open_tiered(pool, name, options, &TierOpening { open, nonce: 0 })
    }

    /// Like [`FileSystem::open`], with its tier. If it is only read, an SSD may be missing:
    /// then reading what lies there fails.
    ///
    /// # Errors
    /// [`crate::Error::Ssd`] if an SSD is missing, too small, another one, an older one, or one that a later copy of the
    /// pool has used (TI11). Otherwise as [`FileSystem::open`].
    pub fn open_tiered(
        pool: Arc<Pool>,
        name: &str,
        options: FsOptions,
        tier_opening: &TierOpening<'_>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { shared: SharedFiles::open(pool, name, options, tier_opening)? }))
    }

    /// Gives the file system called `name`, which is not open, a tier on `ssds`. Durable on return, or not done. `lose`
    /// names the bytes of SSDs that may hold data; `nonce` is random.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if it has a tier; [`crate::Error::Invalid`] for no SSDs or more than eight;
    /// [`crate::Error::Refused`] for one that is too small or may hold data; [`crate::Error::NoSpace`] if the pool has no
    /// room for their table.
    pub fn add_tier(pool: &Pool, name: &str, ssds: &[TierDisk], lose: Option<u64>, nonce: u16) -> Result<()> {
        tier_joining::add_tier(pool, name, ssds, lose, nonce)
    }

    /// Makes a pool in `memory` with one empty file system in it, and opens that: for programs that want files for as
    /// long as they run. What `memory` held is lost.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Limit`] if `memory` is too small for a pool, [`crate::Error::NoSpace`] if it is too
    /// small for a file system.
    pub fn alone(memory: Arc<dyn Memory>, spec: &FsSpec, options: FsOptions) -> Result<Arc<Self>> {
        let (uuid, boot_id) = ((u128::from(spec.hash_seed) + 1).to_le_bytes(), [1; 16]);
        Pool::create(&*memory, &Format { uuid, boot_id })?;
        let pool = Arc::new(Pool::open(memory, boot_id)?.0);
        Self::create(&pool, ALONE_NAME, spec)?;
        Self::open(pool, ALONE_NAME, options)
    }

    /// Destages every page that may leave the pool, if there is a tier: then the SSDs have all content except for files
    /// that are being appended to.
    ///
    /// # Errors
    /// [`crate::Error::Ssd`] if an SSD fails; otherwise as [`FileSystem`].
    pub fn drain_tier(&self) -> Result<()> {
        tier::drain_tier(&self.shared, &self.shared.tier)
    }

    /// Allows a backup to copy the SSDs as they are at the next freeze of the pool; `None` without a tier.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] while another backup copies them.
    pub fn hold_tier(&self) -> Result<Option<HeldTier>> {
        HeldTier::want(&self.shared)
    }

    /// Returns the report on the tier; `None` without a tier.
    pub fn tier(&self) -> Option<TierReport> {
        self.shared.slots.as_ref().map(|slots| tier::tier_report::report(slots))
    }

    /// Returns the state of the tier and its counts since the file system was opened; `None` without a tier.
    pub fn tier_stats(&self) -> Option<TierStats> {
        tier::tier_stats::stats(&self.shared, &self.shared.tier)
    }

    /// Returns what maintains the tier.
    pub fn tier_upkeep(&self) -> TierUpkeep<'_> {
        TierUpkeep { shared: &self.shared }
    }

    /// Trims all free segments of the SSDs that trim. `progress` gets how far it is, and ends it by returning false.
    /// Returns how many bytes were trimmed.
    ///
    /// # Errors
    /// [`crate::Error::Ssd`] if an SSD fails; [`ferrite_pool::Error::Cancelled`]; otherwise as [`FileSystem`].
    pub fn trim_tier(&self, progress: ProgressWatch<'_>) -> Result<u64> {
        trim_segments::trim_tier(&self.shared, progress)
    }

    /// When written data is durable.
    pub fn data_mode(&self) -> DataMode {
        self.shared.data_mode()
    }

    /// The pool it lies in.
    pub fn pool(&self) -> &Arc<Pool> {
        self.shared.pool()
    }

    /// Returns the current tag.
    pub fn tag(&self) -> Arc<Tag> {
        self.shared.tag()
    }

    /// Returns the requests that clients did by themselves since this opening, and their bytes.
    pub fn direct_counts(&self, request: DirectRequest) -> (u64, u64) {
        self.shared.space.shared_state.counts(request)
    }

    /// Returns how full the file system is, without removed files. Free space is what content can use: not the rest of
    /// chunks of names and words, not parts of chunks in the pool, and not space that clients of an earlier owner may
    /// still store to (FG5). Counts inodes, which takes a while the first time if there are millions.
    pub fn statfs(&self) -> Statfs {
        statfs::statfs(&self.shared)
    }

    /// Gives or takes space of a range of a regular file. A crash may leave a part of it done.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for an empty range; [`crate::Error::FileTooBig`] if it ends behind the largest file;
    /// [`crate::Error::IsDirectory`] or [`crate::Error::Invalid`] if `ino` is not a regular file. Otherwise as
    /// [`FileSystem`].
    pub fn allocate(&self, ino: Ino, range: Range<u64>, how: Allocate) -> Result<()> {
        allocate::allocate(&self.shared, ino, range, how)
    }

    /// The first byte from `at` on of the kind looked for.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`] where `at` is not before the end, or no data comes any more;
    /// [`crate::Error::IsDirectory`] or [`crate::Error::Invalid`] for what is no regular file.
    pub fn seek(&self, ino: Ino, at: u64, what: Seek) -> Result<u64> {
        allocate::seek(&self.shared, ino, at, what)
    }

    /// Reads from byte `at` on; how many bytes, fewer than asked for at the end only.
    ///
    /// # Errors
    /// [`crate::Error::IsDirectory`] for a directory, [`crate::Error::Invalid`] for other files without content.
    /// Otherwise as [`FileSystem`].
    pub fn read(&self, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
        read::read(&self.shared, ino, at, into)
    }

    /// Like [`FileSystem::read`], without noting the access (O_NOATIME).
    ///
    /// # Errors
    /// Fails as [`FileSystem::read`].
    pub fn read_unnoted(&self, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
        read::read_unnoted(&self.shared, ino, at, into)
    }

    /// Writes from byte `at` on, which may lie past the end; how many bytes, fewer than given only where space ran out.
    ///
    /// # Errors
    /// [`crate::Error::FileTooBig`] if `at` is behind the largest file, [`crate::Error::IsDirectory`] for a directory,
    /// [`crate::Error::Invalid`] for other files without content, [`crate::Error::NoSpace`] if no byte fits (FW5).
    /// Otherwise as [`FileSystem`].
    pub fn write(&self, ino: Ino, at: u64, from: &[u8]) -> Result<usize> {
        write::write(&self.shared, ino, at, from)
    }

    /// Like [`FileSystem::write`], and the file keeps its times: the caller sets them.
    ///
    /// # Errors
    /// Fails as [`FileSystem::write`].
    pub fn write_unnoted(&self, ino: Ino, at: u64, from: &[u8]) -> Result<usize> {
        write::write_unnoted(&self.shared, ino, at, from)
    }

    /// Writes behind the last byte, even while others append. Returns the offset of the first byte, and how many bytes
    /// were written.
    ///
    /// # Errors
    /// Fails as [`FileSystem::write`].
    pub fn append(&self, ino: Ino, from: &[u8]) -> Result<(u64, usize)> {
        write::append(&self.shared, ino, from)
    }

    /// Everything written to the file before is durable on return.
    ///
    /// # Errors
    /// [`crate::Error::Pool`] if earlier writes may not be durable, or [`crate::Error::NoSpace`] if the host lacks
    /// space for them. If a fence is durable, `ino` is not looked up, and [`crate::Error::Stale`] does not occur.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        fsync::fsync(&self.shared, ino)
    }

    /// Makes earlier writes to all files durable.
    ///
    /// # Errors
    /// Fails as [`FileSystem::fsync`].
    pub fn flush(&self) -> Result<()> {
        fsync::flush(&self.shared)
    }

    /// Removes a name of what is no directory. A file without a name lives on while it is held; a crash ends it.
    /// Space of a large one is freed by [`FileSystem::step`].
    ///
    /// # Errors
    /// [`crate::Error::NotFound`], [`crate::Error::IsDirectory`]; [`crate::Error::NotDirectory`] if `parent` is not a
    /// directory; [`crate::Error::NameTooLong`]; [`crate::Error::Invalid`] for bytes that cannot be a name.
    /// [`crate::Error::NoSpace`] only if 8192 files wait already, held without a name or for steps that free them.
    /// Otherwise as [`FileSystem`].
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        remove::unlink(&self.shared, parent, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`], [`crate::Error::NotDirectory`], [`crate::Error::NotEmpty`], also for `..`, and
    /// [`crate::Error::Invalid`] for `.`; else as [`FileSystem::unlink`].
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        remove::rmdir(&self.shared, parent, name)
    }

    /// An extended attribute's value. Names are whole (`user.x`, `trusted.x`, `security.x`,
    /// `system.posix_acl_access`); who may see which is the caller's to check.
    ///
    /// # Errors
    /// [`crate::Error::NoAttribute`]; [`crate::Error::Unsupported`] for another prefix of the name;
    /// [`crate::Error::Invalid`] for a prefix alone. Otherwise as [`FileSystem`].
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        xattr::xattr(&self.shared, ino, name)
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// Fails as [`FileSystem`].
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        xattr::xattrs(&self.shared, ino)
    }

    /// Sets an extended attribute: up to 64 KiB. An ACL changes the mode with it.
    ///
    /// # Errors
    /// [`crate::Error::Exists`] or [`crate::Error::NoAttribute`] according to `how`; [`crate::Error::AttributeTooBig`]
    /// for the value; [`crate::Error::AttributesFull`] for more than 256 KiB of all attributes;
    /// [`crate::Error::Invalid`] for an impossible name or a bad ACL; [`crate::Error::NotPermitted`] for a default ACL
    /// of a file that is not a directory; [`crate::Error::Unsupported`] for the ACL of a symbolic link. Otherwise as
    /// [`FileSystem::xattr`], or for lack of space.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        xattr::set_xattr(&self.shared, ino, name, value, how)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// Fails as [`FileSystem::xattr`], or for lack of space.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        xattr::remove_xattr(&self.shared, ino, name)
    }

    /// Makes a file, a directory, a pipe, or a socket's or device's name.
    ///
    /// # Errors
    /// [`crate::Error::Exists`], also for `.` and `..`; [`crate::Error::NotDirectory`] if `parent` is not a directory,
    /// and [`crate::Error::NotFound`] if it was removed; [`crate::Error::NameTooLong`]; [`crate::Error::Invalid`] for
    /// bytes that cannot be a name, and for a symbolic link; [`crate::Error::TooManyLinks`] if `parent` has no room
    /// for another directory. Otherwise as [`FileSystem`].
    pub fn create_file(&self, parent: Ino, name: &[u8], new: &NewFile) -> Result<Attr> {
        create::create_file(&self.shared, parent, name, new)
    }

    /// Makes a symbolic link to `target`, 1 to 4095 bytes.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] for an empty target, [`crate::Error::NameTooLong`] for a long one. Otherwise as
    /// [`FileSystem::create_file`].
    pub fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], by: Credentials) -> Result<Attr> {
        create::symlink(&self.shared, parent, name, target, by)
    }

    /// Gives a file, not a directory, one more name.
    ///
    /// # Errors
    /// [`crate::Error::NotPermitted`] for a directory, [`crate::Error::TooManyLinks`] for a file that has 2^31 names;
    /// else as [`FileSystem::create_file`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        create::link(&self.shared, ino, parent, name)
    }

    /// Moves a name, all or nothing.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if `from` does not exist, or `to` does not exist in an exchange.
    /// [`crate::Error::Exists`] if `to` exists and must not be replaced. [`crate::Error::IsDirectory`],
    /// [`crate::Error::NotDirectory`] and [`crate::Error::NotEmpty`] if it cannot be replaced.
    /// [`crate::Error::Invalid`] for `.` and `..`, and for a directory moved into itself. Otherwise as
    /// [`FileSystem::create_file`].
    pub fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename) -> Result<()> {
        rename::rename(&self.shared, from, to, how)
    }

    /// What `parent` calls `name`; `.` and `..` too.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`]; [`crate::Error::NotDirectory`] if `parent` is not a directory;
    /// [`crate::Error::NameTooLong`]; [`crate::Error::Invalid`] for bytes that cannot be a name;
    /// [`crate::Error::Stale`] also if the file is removed during the call.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        lookup::lookup(&self.shared, parent, name)
    }

    /// Returns the attributes of a file.
    ///
    /// # Errors
    /// Fails as [`FileSystem`].
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        lookup::getattr(&self.shared, ino)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for what is no symbolic link.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        lookup::readlink(&self.shared, ino)
    }

    /// Returns up to `count` entries behind `cookie` in the order of [`FileSystem::readdir`], except `.` and `..`,
    /// with their attributes (FN4). Leaves out entries that are removed during the call.
    ///
    /// # Errors
    /// Fails as [`FileSystem::readdir`], if damage comes before any entry.
    pub fn list(&self, dir: Ino, cookie: u64, count: usize) -> Result<Vec<ListedEntry>> {
        lookup::list(&self.shared, dir, cookie, count)
    }

    /// Lists a directory, `.` and `..` first, from behind the entry with `cookie` (0: from the start), until `each`
    /// returns `false`; that entry comes again. Entries that stay are listed once, whatever else changes. `each` must
    /// not call this file system.
    ///
    /// # Errors
    /// [`crate::Error::NotDirectory`]; [`crate::Error::Corrupt`] at the end if some entries are damaged, after all
    /// others were listed, in this call or earlier ones. Otherwise as [`FileSystem`].
    pub fn readdir(&self, dir: Ino, cookie: u64, each: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result<()> {
        lookup::readdir(&self.shared, dir, cookie, each)
    }

    /// Keeps the inode although its last name may be removed: an open file, or a number that a kernel remembers.
    /// Once for each [`FileSystem::release`].
    ///
    /// # Errors
    /// [`crate::Error::Stale`].
    pub fn hold(&self, ino: Ino) -> Result<()> {
        inode_lifetime::hold(&self.shared, ino)
    }

    /// Gives back `count` holds. With the last one a file without a name ends, and pages that were taken ahead of
    /// appends become free (FX1).
    pub fn release(&self, ino: Ino, count: u64) {
        inode_lifetime::release(&self.shared, ino, count)
    }

    /// Changes the attributes in `set`, all in one; a size cuts or extends the end. A mode changes the ACL with it.
    ///
    /// # Errors
    /// For a size: [`crate::Error::FileTooBig`], [`crate::Error::IsDirectory`] for a directory and
    /// [`crate::Error::Invalid`] for other files without content. Otherwise as [`FileSystem`].
    pub fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        setattr::setattr(&self.shared, ino, set)
    }

    /// Does one bounded step of what waits: freeing what large removed files held and what was taken ahead of appends
    /// that do not come, moving files to superpages, giving chunks back to the pool; and keeps the books of clients,
    /// and of copies of attributes. `false` when nothing waits.
    ///
    /// # Errors
    /// Fails as [`FileSystem`]; sessions are ended even if the file system is read-only.
    pub fn step(&self) -> Result<bool> {
        reclaim::step(&self.shared)
    }

    /// Makes durable all data that waits for an fsync (FW4). Calling it now and then bounds what a crash takes of
    /// files without an fsync.
    ///
    /// # Errors
    /// Fails as [`FileSystem::flush`].
    pub fn write_back(&self) -> Result<()> {
        fsync::write_back(&self.shared)
    }

    /// Returns a number of the data that waits for an fsync, if any does: it is unchanged if nothing was written
    /// since.
    pub fn unsaved(&self) -> Option<u64> {
        fsync::unsaved(&self.shared)
    }

    /// Gives back what the pool can use: space ahead of appends and chunks without pages. Returns true if there was any.
    pub fn spare(&self) -> bool {
        self.shared.spare()
    }
}
