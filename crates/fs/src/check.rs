//! What `check` asks of a file system: that every page and inode is named once and marked so, that every name leads to
//! an inode, and that every inode is reached by as many names as it says.
//!
//! This reads the medium by itself and shares no walk with the file system, so that it does not share its mistakes.
//!
//! A repair goes in rounds. Each round looks at everything, and repairs what it can with one transaction for each
//! thing; so an interrupted repair can simply continue. While two facts contradict each other and no third decides, it
//! changes nothing (FD1). Otherwise names that cannot be right are cleared. A page of content that two inodes name is
//! copied (FJ1). Counts are set to the counted values. Inodes without a name are marked lost: the next opening puts them
//! into `lost+found`. Unnamed pages are freed last, when no other error is left that could hide their names.

mod claims;
mod content;
mod directory;
mod doubt;
mod inodes;
mod media;
mod relocate;
mod slots;
mod wrong;

use std::collections::BTreeSet;

use ferrite_pool::check::{MovedRange, TagFindings, TagOwner};
use ferrite_pool::{Error, Pool, Result, Tag, TagKind};

pub(crate) use media::CheckedMedia;
pub(crate) use wrong::{Fix, FsFinding};

/// Rounds after which a repair ends in any case.
const ROUNDS_MAX: usize = 32;

/// The owner of file systems, for `check` and `defrag`.
pub struct FilesOwner;

/// All that is wrong with the file system of `tag`.
pub(crate) fn look(pool: &Pool, tag: &Tag) -> Vec<FsFinding> {
    match CheckedMedia::open(pool, tag) {
        Ok(media) => doubt::look(&media),
        Err(wrong) => vec![wrong],
    }
}

impl TagOwner for FilesOwner {
    fn kind(&self) -> TagKind {
        TagKind::FILES
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        look(pool, tag).into_iter().for_each(|wrong| findings.error(wrong.what, Some(wrong.at)));
    }

    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            let (fixable, rest): (Vec<FsFinding>, Vec<FsFinding>) =
                look(pool, tag).into_iter().partition(|wrong| wrong.fix.is_some());
            if fixable.is_empty() {
                rest.into_iter().for_each(|wrong| findings.error(wrong.what, Some(wrong.at)));
                return Ok(());
            }
            let (mut touched, mut is_any_done) = (BTreeSet::new(), false);
            for wrong in fixable {
                let fix = wrong.fix.expect("it was partitioned so");
                // What two things say of one place is looked at again in the next round: the second may write what the
                // first has put right.
                if fix.words().all(|at| !touched.contains(&at)) {
                    match fix.apply(pool) {
                        // Too much for a transaction: nothing was done, and the end of the repair reports that.
                        Err(Error::Limit(_)) => continue,
                        applied => applied?,
                    }
                    touched.extend(fix.words());
                    findings.repaired(wrong.what, Some(wrong.at), fix.done);
                    is_any_done = true;
                }
            }
            if !is_any_done {
                break;
            }
        }
        self.walk(pool, tag, findings);
        Ok(())
    }

    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
        relocate::relocate(pool, tag, moved)
    }
}
