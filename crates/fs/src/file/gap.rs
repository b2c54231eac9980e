//! The content between the end of a file and a new end behind it.

use ferrite_memory::planted;
use ferrite_pool::layout::PAGE;

use crate::Result;
use crate::file::{FileLayer, ahead, bring_in, cut, index, superpage};
use crate::format::inode::{Inode, KEEPS_PAGES};
use crate::store::locks::Stripe;

/// Makes what lies between the end of a file and byte `until` read as zeros, before the end moves over it (FT1). Whole
/// pages there that were taken for appends to come go back: they would stay in what is a hole.
pub(crate) fn define_until(files: &FileLayer, stripe: &mut Stripe, inode: &mut Inode, until: u64) -> Result<()> {
    while inode.is_cut() {
        cut::trim_orphan(files, inode)?;
    }
    let has_pages = until / PAGE > inode.size().div_ceil(PAGE);
    let may_free = inode.head.flags & KEEPS_PAGES == 0 && !stripe.waiting.contains_key(&inode.ino.0);
    if has_pages && may_free {
        let end = inode.size();
        ahead::free_behind(files, inode, end)?;
        superpage::shrink_super(files, inode)?;
    }
    planted!("fs: undefined gap" => return Ok(()));
    if until > inode.size() {
        bring_in::bring_in(files, inode, inode.size()..until)?;
        index::zero_bytes(files, inode, inode.size()..until)?;
        files.drain()?;
    }
    Ok(())
}
