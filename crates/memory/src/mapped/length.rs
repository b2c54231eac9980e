//! How long a file for a pool or a disk may be.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Sets the length of `file` to `bytes`.
///
/// # Errors
/// The system's error; on a file of huge pages, `bytes` must be a multiple of them.
pub fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    let page_bytes = file.metadata()?.blksize();
    file.set_len(bytes).map_err(|error| match error.kind() {
        // What hugetlbfs says.
        io::ErrorKind::InvalidInput if !bytes.is_multiple_of(page_bytes) => {
            let page = page_bytes >> 10;
            io::Error::other(format!("there are pages of {page} KiB here, and the size must be a multiple of that"))
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests;
