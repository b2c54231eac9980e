//! The capabilities that a mount negotiates with the kernel.

use std::io;

use fuser::{InitFlags, KernelConfig};

/// The largest transfer in one request, in bytes: the kernel's default limit.
const TRANSFER_BYTES: u32 = 1 << 20;
/// The number of background requests that the kernel sends before it queues more.
const IN_FLIGHT: u16 = 64;
/// Requests the capabilities that make the mount fast, and requires those that make it correct.
pub(super) fn agree(config: &mut KernelConfig, cached: bool) -> io::Result<()> {
    let wanted = [
        InitFlags::FUSE_ASYNC_READ,
        InitFlags::FUSE_BIG_WRITES,
        InitFlags::FUSE_DO_READDIRPLUS,
        InitFlags::FUSE_READDIRPLUS_AUTO,
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_NO_OPEN_SUPPORT,
        InitFlags::FUSE_NO_OPENDIR_SUPPORT,
        InitFlags::FUSE_CACHE_SYMLINKS,
        InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        InitFlags::FUSE_EXPORT_SUPPORT,
    ];
    for flag in wanted {
        // A kernel without the capability uses an older protocol.
        let _ = config.add_capabilities(flag);
    }
    let needed = InitFlags::FUSE_DONT_MASK | InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
    let needed = if cached { needed | InitFlags::FUSE_WRITEBACK_CACHE } else { needed };
    config
        .add_capabilities(needed)
        .map_err(|missing| io::Error::other(format!("the kernel's FUSE is too old: it lacks {missing:?}")))?;
    let _ = config.set_max_write(TRANSFER_BYTES);
    let _ = config.set_max_background(IN_FLIGHT);
    Ok(())
}
