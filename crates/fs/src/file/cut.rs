//! Pages behind an end that was cut off.

use ferrite_pool::layout::PAGE;

use crate::Result;
use crate::file::{Files, index};
use crate::format::inode::Inode;
use crate::store::change::Change;

/// One step of freeing what an orphan with a name has behind its end.
pub(crate) fn trim_orphan(files: &Files, inode: &mut Inode) -> Result<()> {
    if inode.head.orphan == 0 {
        return Ok(());
    }
    let mut change = Change::new(files);
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
