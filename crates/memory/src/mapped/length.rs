//! How long a file for a pool or a disk may be.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Makes `file` `bytes` long.
///
/// # Errors
/// What the system says; of huge pages, that the size must be a multiple of them.
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
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn a_size_that_huge_pages_cannot_have_is_told() {
        // Where the machine has no pages of that size there is nothing to refuse.
        let Ok(file) = memfd_create("huge", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB) else {
            return;
        };
        let file = File::from(file);
        let said = set_len(&file, 9 << 20).expect_err("refused").to_string();
        assert!(said.contains("pages of 2048 KiB") && said.contains("a multiple"), "{said}");
        set_len(&file, 10 << 20).expect("sized");
    }
}
