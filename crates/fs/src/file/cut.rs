//! Pages behind an end that was cut off.

use ferrite_pool::layout::PAGE;

use crate::Result;
use crate::file::{FileLayer, index};
use crate::format::inode::Inode;
use crate::store::change::FsChange;

/// One step of freeing what an orphan with a name has behind its end.
pub(crate) fn trim_orphan(files: &FileLayer, inode: &mut Inode) -> Result<()> {
    if inode.head.orphan == 0 {
        return Ok(());
    }
    let mut change = FsChange::new(files);
    let end = inode.size().div_ceil(PAGE);
    let is_last = index::trim(files, &mut change, inode, end)?;
    if is_last {
        files.free_orphan(&mut change, inode)?;
    }
    change.commit_head(inode)?;
    if is_last {
        files.orphans.remove(inode.ino);
    }
    Ok(())
}
