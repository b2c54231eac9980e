//! The file systems that are compared.

use std::sync::Arc;

use ferrite_fs::SUPER_THRESHOLD_BYTES;

use crate::Result;
use crate::field::Field;
use crate::file_subject::{FileSubject, mounting};
use crate::mount_node::{EXT2, MountRoot, NodeSource};
use crate::pool_tree::{OpenPool, PoolTree};
use crate::records::LibraryFolder;
use crate::scratch::Scratch;
use crate::session::BenchSession;

/// Large files in superpages, mapped as such.
pub const SUPER: &str = "superpages";
/// Files in pages of 4 KiB of memory that is mapped in pages of 2 MiB.
pub const BETWEEN: &str = "normal pages, huge mapping";
/// Files in pages of 4 KiB, mapped as such.
pub const NORMAL: &str = "normal pages";
const TMPFS: &str = "tmpfs";
const RAMFS: &str = "ramfs";
const RAMDISK: &str = "ext2 on a RAM disk";
/// The subject that the space of a file is compared with.
pub const DATA: &str = "its bytes";

/// Adds our file systems, each with room for `bytes`. Returns a sentence on the sizes of their pages.
pub fn enter_ours(field: &mut Field<FileSubject>, session: &BenchSession<'_>, bytes: u64) -> Result<String> {
    let place = &session.options.place;
    let (huge, small) = (OpenPool::new(place, 2 * bytes)?, OpenPool::of_small_pages(place, bytes)?);
    let mut enter = |name, open_pool: &Arc<OpenPool>, super_threshold_bytes| -> Result<()> {
        let tree = PoolTree { super_threshold_bytes, ..PoolTree::new(open_pool, name) };
        tree.make()?;
        field.enter(name, FileSubject::Library(LibraryFolder { fs: tree.open()? }));
        Ok(())
    };
    enter(SUPER, &huge, Some(SUPER_THRESHOLD_BYTES))?;
    enter(BETWEEN, &huge, None)?;
    enter(NORMAL, &small, None)?;
    let (huge, small) = (huge.page_bytes() >> 10, small.page_bytes() >> 10);
    let same = if huge > small { "" } else { ": this machine has no two kinds to compare" };
    Ok(format!("superpages are mapped by {huge} KiB, normal pages by {small} KiB{same}"))
}

/// Adds the kernel's file systems in memory, each with room for `bytes`, if anything can be mounted.
pub fn enter_kernels(field: &mut Field<FileSubject>, session: &mut BenchSession<'_>, bytes: u64) -> Result<()> {
    let ferrite = match mounting(session) {
        Ok(ferrite) => ferrite,
        Err(why) => {
            session.left_out("every file system of the kernel", why);
            return Ok(());
        }
    };
    let (scratch, mount_root) = (Scratch::new(&session.options.place)?, MountRoot::new()?);
    scratch.file("ext2", bytes)?;
    let nodes = [
        (TMPFS, mount_root.node("tmpfs", NodeSource::PageCache("tmpfs"), "size=100%,huge=never")?),
        (RAMFS, mount_root.node("ramfs", NodeSource::PageCache("ramfs"), "rw")?),
        (RAMDISK, mount_root.node("ext2", NodeSource::File(scratch.path("ext2")), "rw")?.of(&EXT2)),
    ];
    field.keep(scratch);
    field.keep(mount_root);
    for (name, node) in nodes {
        field.enter(name, FileSubject::mounted(node, ferrite, false)?);
    }
    Ok(())
}
