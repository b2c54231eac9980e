//! The owners of tags, which understand the content of a kind.

use std::sync::Arc;

use ferrite_memory::Span;

use super::check_report::{TagFindings, place};
use crate::extent::Role;
use crate::log::log_head::{head_of_log, relocate_log};
use crate::tag::{Tag, TagKind};
use crate::{Pool, Result, tag_value};

/// The owner of all tags of one kind: the service that writes their content.
pub trait TagOwner: Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> TagKind;

    /// Checks the whole content of `tag` and reports damage. Writes nothing and starts no transaction, because the pool
    /// may be frozen.
    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>);

    /// Checks as [`TagOwner::walk`] does, and repairs damage that has one right answer: crash-safe, idempotent, and
    /// reported with the data that was lost. No other structure names pages of `tag`, and no caller has it open.
    ///
    /// # Errors
    /// As [`Pool`] says: the repair of the pool ends there.
    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> Result<()> {
        self.walk(pool, tag, findings);
        Ok(())
    }

    /// Adapts the copied part of the tag's content to its new place. Flushes its stores; the caller settles them before
    /// the tag refers to the copy. After an error the tag stays in its old place. Starts no transaction, and asks the
    /// pool for no tag.
    ///
    /// A kind whose content has only offsets within its streams does not need to override this.
    ///
    /// # Errors
    /// [`crate::Error::Medium`], [`crate::Error::Poisoned`], [`crate::Error::Full`] and [`crate::Error::Limit`] if the
    /// pool cannot continue. Any other error is the reason why this tag stays in its place.
    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
        let _ = (pool, tag, moved);
        Ok(())
    }
}

/// A part of a tag's stream that a defragmentation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRange {
    /// The role of the stream.
    pub role: Role,
    /// The old place in the pool, which is valid until the change commits.
    pub from: Span,
    /// The place of the copy, of the same length.
    pub to: Span,
}

/// The owners that a program links.
pub struct TagOwners(Vec<Arc<dyn TagOwner>>);

impl Default for TagOwners {
    /// Returns the owners of the kinds that the pool itself defines.
    fn default() -> Self {
        Self(vec![Arc::new(ValueOwner), Arc::new(LogOwner)])
    }
}

impl TagOwners {
    /// Returns no owners, so that only the tables are checked.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an owner in place of an earlier one of its kind.
    pub fn register(&mut self, owner: Box<dyn TagOwner>) {
        self.register_shared(owner.into());
    }

    /// As [`Owners::register`], of an owner that the program keeps, too.
    pub fn register_shared(&mut self, owner: Arc<dyn TagOwner>) {
        self.0.retain(|known| known.kind() != owner.kind());
        self.0.push(owner);
    }

    /// Returns the owner of tags of `kind`.
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
            findings.error("its checksum is wrong: put the value again, or restore a backup", at);
        }
    }
}

/// The owner of logs. Bytes behind the last whole record are not part of a log, so only its head can be damaged.
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

    /// Seals the head word for its new place.
    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
        relocate_log(pool, tag, moved)
    }
}
