//! Who knows what a tag of a kind holds.

use std::sync::Arc;

use ferrite_memory::Span;

use super::check_report::{TagFindings, place};
use crate::extent::Role;
use crate::log::log_head::{head_of_log, relocate_log};
use crate::tag::{Tag, TagKind};
use crate::{Pool, Result, tag_value};

/// The owner of all tags of one kind: the service that writes what they hold.
pub trait TagOwner: Send + Sync {
    /// The kind.
    fn kind(&self) -> TagKind;

    /// Looks at all that `tag` holds and tells what is wrong. Writes nothing and starts no transaction: the pool may
    /// stand still.
    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>);

    /// As [`TagOwner::walk`], and repairs what has one right answer: crash-safe, idempotent, and told with what was lost
    /// by it. The tables of the pool say of no page of `tag` that it is another one's, too, and nobody else has it open.
    ///
    /// # Errors
    /// As [`Pool`] says: the repair of the pool ends there.
    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> Result<()> {
        self.walk(pool, tag, findings);
        Ok(())
    }

    /// Puts right, in the copy, what depends on where it lies. What it stores it flushes; the caller settles that, and
    /// then lets the tag name the copy. An error leaves the tag where it is. Starts no transaction, and asks the pool for
    /// no tag.
    ///
    /// A kind whose content addresses everything by offsets in its streams needs none of its own.
    ///
    /// # Errors
    /// [`crate::Error::Medium`], [`crate::Error::Poisoned`], [`crate::Error::Full`] and [`crate::Error::Limit`] where
    /// the pool cannot go on; any other says why this tag stays where it is.
    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
        let _ = (pool, tag, moved);
        Ok(())
    }
}

/// A part of a tag's stream that a defragmentation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRange {
    /// The stream's role.
    pub role: Role,
    /// Where it lies in the pool, and still does after a crash.
    pub from: Span,
    /// Where its copy lies; of the same length.
    pub to: Span,
}

/// The owners that are known to a program.
pub struct TagOwners(Vec<Arc<dyn TagOwner>>);

impl Default for TagOwners {
    /// The owners of what the pool knows by itself.
    fn default() -> Self {
        Self(vec![Arc::new(ValueOwner), Arc::new(LogOwner)])
    }
}

impl TagOwners {
    /// Nobody: only the tables are checked.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one; it replaces another one of its kind.
    pub fn register(&mut self, owner: Box<dyn TagOwner>) {
        self.register_shared(owner.into());
    }

    /// As [`Owners::register`], of an owner that the program keeps, too.
    pub fn register_shared(&mut self, owner: Arc<dyn TagOwner>) {
        self.0.retain(|known| known.kind() != owner.kind());
        self.0.push(owner);
    }

    /// The owner of tags of `kind`.
    pub fn of(&self, kind: TagKind) -> Option<&dyn TagOwner> {
        self.0.iter().find(|owner| owner.kind() == kind).map(|owner| &**owner)
    }
}

/// The owner of values: plain bytes with a checksum.
struct ValueOwner;

impl TagOwner for ValueOwner {
    fn kind(&self) -> TagKind {
        TagKind::BYTES
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        if !tag_value::is_sound(pool.memory(), tag) {
            let at = tag.extents.first().map(|extent| extent.span().at);
            findings.error("its bytes are not what was put: put it again, or restore a backup", at);
        }
    }
}

/// The owner of logs. What is behind the last whole record is no record by the rules of a log, so only the start can be
/// damaged.
struct LogOwner;

impl TagOwner for LogOwner {
    fn kind(&self) -> TagKind {
        TagKind::LOG
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        if let Err(error) = head_of_log(pool, tag) {
            findings.error(error.to_string(), place(&error));
        }
    }

    /// The head word is sealed for its place.
    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
        relocate_log(pool, tag, moved)
    }
}
