//! The files whose pages on SSDs are lost.

use std::collections::BTreeMap;

use ferrite_pool::layout::PAGE;
use serde::{Deserialize, Serialize};

use crate::file::{FileLayer, bring_in};
use crate::format::segment::SegmentNo;
use crate::{Ino, Result};

/// A file that lost pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPages {
    /// Its path below the root of the file system; bytes that are no text are replaced. `None` if it has no name.
    pub path: Option<String>,
    /// Bytes of the pages.
    pub bytes: u64,
}

/// Returns the bytes of each file, by its inode, that are in segments for which `is_lost` holds.
pub(crate) fn lost_bytes(files: &FileLayer, is_lost: &dyn Fn(SegmentNo) -> bool) -> Result<BTreeMap<u64, u64>> {
    let mut lost = BTreeMap::new();
    for number in files.space.inodes_in_use(files.memory()) {
        let _reading = files.locks.read(Ino(number));
        let Ok(inode) = files.load_regular(Ino(number)) else { continue };
        let away = bring_in::away_pages(files, &inode, 0..inode.size().next_multiple_of(PAGE))?;
        let pages = away.iter().filter(|page| is_lost(page.slot.segment())).count() as u64;
        if pages > 0 {
            lost.insert(number, pages * PAGE);
        }
    }
    Ok(lost)
}

/// Returns the inodes of `lost` with their `paths`, in the order of these.
pub(crate) fn with_paths(lost: &BTreeMap<u64, u64>, paths: &BTreeMap<u64, String>) -> Vec<LostPages> {
    let mut files: Vec<LostPages> =
        lost.iter().map(|(ino, bytes)| LostPages { path: paths.get(ino).cloned(), bytes: *bytes }).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}
