//! The subjects: the ways into our file system, the bare copy, and the kernel's own file systems in memory.

use std::path::Path;
use std::sync::Arc;

use ferrite_disk::RamDisk;

use crate::Result;
use crate::field::Field;
use crate::file_subject::{FileSubject, has_program, mounting};
use crate::mount_node::{self, MountRoot, NodeSource};
use crate::pool_tree::{OpenPool, PoolTree};
use crate::records::{BareFolder, LibraryFolder};
use crate::scratch::Scratch;
use crate::session::BenchSession;

/// Ours, in process.
pub const LIBRARY: &str = "library";
/// Ours, in process, with an SSD that nothing has to go to.
pub const TIERED: &str = "library, tier";
/// Ours, by a program that `ferrite run` runs: durable on return.
pub const RUN: &str = "ferrite run";
/// Ours, mounted: durable on return.
pub const MOUNT: &str = "mount";
/// Ours, mounted `--cached`: durable at fsync.
pub const CACHED: &str = "mount --cached";
/// A cached mount whose server keeps nothing: the bound of such a mount.
pub const HOLLOW: &str = "hollow cached";
/// The subject that all are compared with; nothing in it is durable.
pub const TMPFS: &str = "tmpfs";
/// tmpfs in huge pages.
pub const TMPFS_HUGE: &str = "tmpfs huge";
/// The kernel's smallest file system in memory.
pub const RAMFS: &str = "ramfs";
/// ext4 on a disk of memory, with an fdatasync after each write: as durable as ours.
pub const EXT4: &str = "ext4 fdatasync";
/// ext4 on a disk of memory: durable at fsync.
pub const EXT4_CACHED: &str = "ext4 cached";
/// XFS on a disk of memory: durable at fsync.
pub const XFS_CACHED: &str = "xfs cached";
/// No file system: the machine's bound.
pub const BARE: &str = "bare copy";
/// The bare copy, then a size with a fence of its own: the machine's bound of files that grow.
pub const BARE_APPEND: &str = "bare append";
/// Bytes of the SSD of [`TIERED`].
const TIERED_SSD_BYTES: u64 = 16 << 20;
/// The pool of [`TIERED`] in sizes of its content: more than a quarter of it stays free, so nothing is destaged.
const TIERED_POOL: u64 = 2;
/// Every subject that this machine can have, each with room for `file_bytes` and for `window_bytes` of new files.
pub fn enter_all(session: &mut BenchSession<'_>, file_bytes: u64, window_bytes: u64) -> Result<Field<FileSubject>> {
    let place = &session.options.place;
    let room = file_bytes + 2 * window_bytes + (48 << 20);
    let open_pool = OpenPool::new(place, 3 * room + (64 << 20))?;
    let library = PoolTree::new(&open_pool, "library");
    library.make()?;
    let mut field = Field::default();
    field.enter(LIBRARY, FileSubject::Library(LibraryFolder { fs: library.open()? }));
    let tiered_pool = OpenPool::new(place, TIERED_POOL * (room + (64 << 20)))?;
    let tiered =
        PoolTree { ssd: Some(Arc::new(RamDisk::new(TIERED_SSD_BYTES))), ..PoolTree::new(&tiered_pool, "tiered") };
    tiered.make()?;
    field.enter(TIERED, FileSubject::Library(LibraryFolder { fs: tiered.open()? }));
    field.enter(BARE, FileSubject::Bare(BareFolder::new(place, room, false)?));
    field.enter(BARE_APPEND, FileSubject::Bare(BareFolder::new(place, room - file_bytes, true)?));
    match mounting(session) {
        Ok(ferrite) => enter_mounted(&mut field, session, ferrite, &open_pool, room)?,
        Err(why) => session.left_out("every mount", why),
    }
    Ok(field)
}

fn enter_mounted(
    field: &mut Field<FileSubject>,
    session: &mut BenchSession<'_>,
    ferrite: &Path,
    open_pool: &Arc<OpenPool>,
    room: u64,
) -> Result<()> {
    let place = &session.options.place;
    let (scratch, mount_root) = (Scratch::new(place)?, MountRoot::new()?);
    let own = OpenPool::new(place, room + (64 << 20))?;
    PoolTree::new(&own, "run").make()?;
    match FileSubject::run(ferrite, own.close()?, "run", &mount_root.folder("run")?)? {
        Some(entrant) => field.enter(RUN, entrant),
        None => session.left_out(RUN, format!("{} is not the whole program", ferrite.display())),
    }
    let page_cache = NodeSource::PageCache;
    let cached = PoolTree { cached: true, ..PoolTree::new(open_pool, "cached") };
    let mut nodes = vec![
        (MOUNT, mount_root.node("mount", NodeSource::Tree(PoolTree::new(open_pool, "mount")), "")?),
        (CACHED, mount_root.node("cached", NodeSource::Tree(cached), "")?),
        (HOLLOW, mount_root.node("hollow", NodeSource::Hollow, "")?),
        (TMPFS, mount_root.node("memory0", page_cache("tmpfs"), "size=100%,huge=never")?),
        (TMPFS_HUGE, mount_root.node("memory1", page_cache("tmpfs"), "size=100%,huge=always")?),
        (RAMFS, mount_root.node("memory2", page_cache("ramfs"), "rw")?),
    ];
    for (name, file_system) in
        [(EXT4, &mount_node::EXT4), (EXT4_CACHED, &mount_node::EXT4), (XFS_CACHED, &mount_node::XFS)]
    {
        if has_program(session, name, file_system.mkfs) {
            let file = name.replace(' ', "-");
            scratch.file(&file, file_system.disk_bytes(room + room / 8))?;
            let source = NodeSource::File(scratch.path(&file));
            nodes.push((name, mount_root.node(&file, source, "rw")?.of(file_system)));
        }
    }
    field.keep(scratch);
    field.keep(mount_root);
    for (name, node) in nodes {
        field.enter(name, FileSubject::mounted(node, ferrite, name == EXT4)?);
    }
    Ok(())
}
