//! Lending a tag of an open pool to another process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::extent::Extent;
use crate::grant::{GrantId, GrantRequest, GrantRights, Process, StandingGrant};
use crate::layout::PAGE;
use crate::tag::{Tag, TagKind};
use crate::{Error, Failure, Pool, Result, TagChange};

use super::lease_change::first_part;
use super::tag_counts::TagCounts;
use super::tag_spec::RoleSpace;
use super::{ListedTag, in_use, widen};

/// A tag, with the fields that a client needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The name of the tag.
    pub name: String,
    /// The number of the kind of the tag.
    pub kind: u16,
    /// The size of the tag in bytes, as its users see it.
    pub size: u64,
    /// The generation of the tag, which no other tag of the pool ever has.
    pub generation: u64,
    /// Bytes of space that the tag takes.
    pub space_bytes: u64,
}

impl Note {
    /// Returns the fields of `tag`.
    pub fn of(tag: &Tag) -> Self {
        let space_bytes = tag.extents.iter().map(|extent| extent.span().len).sum();
        Self { name: tag.name.clone(), kind: tag.kind.0, size: tag.size, generation: tag.generation, space_bytes }
    }
}

/// The description of a lent tag, for the process that borrows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loan {
    /// The grant that the loan rests on.
    pub id: GrantId,
    /// The identity of the pool.
    pub uuid: [u8; 16],
    /// The number of the holding, see [`super::Holding::session`].
    pub session: u64,
    /// Offset of the pool in the file that is passed with the description.
    pub offset: u64,
    /// The tag.
    pub note: Note,
    /// The service's notes about the tag: 64 bytes.
    pub attributes: Vec<u8>,
    /// The tag's space.
    pub extents: Vec<Extent>,
    /// The index of the word with which the owner asks for the tag back, see [`super::Watch`].
    pub word: usize,
}

impl Loan {
    /// Returns the tag, or `None` if the description is of no tag within `pool_bytes`.
    pub fn tag(&self, pool_bytes: u64) -> Option<Tag> {
        let Note { name, kind, size, generation, .. } = self.note.clone();
        let (extents, fit) = (self.extents.clone(), self.extents.iter().all(|it| it.is_within(pool_bytes / PAGE)));
        let attributes = <[u8; 64]>::try_from(self.attributes.as_slice()).ok()?;
        fit.then_some(Tag { name, kind: TagKind(kind), size, generation, attributes, extents })
    }
}

/// A loan, and the descriptors that its process needs.
#[derive(Debug)]
pub struct Lent {
    /// The description for the process.
    pub loan: Loan,
    /// The memory of the pool, which the process maps.
    pub memory: OwnedFd,
    /// The memory of the words that the owner shares with borrowing processes.
    pub words: OwnedFd,
}

/// Refuses a tag of a kind that is not lent, because its service serves it.
///
/// # Errors
/// [`Error::Busy`] for such a kind.
pub fn ensure_lendable(kind: TagKind) -> Result<()> {
    match kind {
        TagKind::OBJECT | TagKind::LOG => Ok(()),
        _ => Err(Error::Busy(format!("a tag of kind {} is not lent: use what serves it", kind.name()))),
    }
}

impl Pool {
    /// Lends the tag called `name` to `process`. No other process may have the tag in hand (HO1). A service that serves
    /// tags of a kind lends one as `served`.
    ///
    /// # Errors
    /// As [`Pool::hold`] and as [`Pool::lend`]; [`Error::WrongKind`] for another kind than `served`, and [`Error::Busy`] for
    /// a kind that only its service lends.
    pub fn lend_tag(self: &Arc<Self>, name: &str, served: Option<TagKind>, process: &Process) -> Result<Lent> {
        let (_listed, tag) = ListedTag::new(self, name, "the pool's owner")?;
        match served {
            Some(kind) => tag.ensure_kind(kind)?,
            None => ensure_lendable(tag.kind)?,
        }
        lend(self, &tag, process)
    }

    /// Ends the loan `id` of `process`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the process has no such grant; else as [`crate::grant::Grants::release`].
    pub fn end_loan(&self, id: GrantId, process: &Process) -> Result<()> {
        theirs(self, id, process)?;
        self.grants().release(self, id)
    }

    /// Widens `parts` of the tag called `name`, which `process` has by the loan `id`: all of them, or none (HO6). The
    /// result takes the place of that loan.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the process has no such grant, [`Error::Busy`] where that is on another tag,
    /// [`Error::Owner`] where the tag stays wider though it was not lent; else as [`Pool::change_tag`] and as
    /// [`Pool::lend`].
    pub fn widen_loan(
        self: &Arc<Self>,
        name: &str,
        id: GrantId,
        parts: &[RoleSpace],
        process: &Process,
    ) -> Result<Lent> {
        let (tag, grant) = (self.tag(name)?, theirs(self, id, process)?);
        if tag.generation != grant.tag_generation {
            return Err(in_use(name, "another user of the pool"));
        }
        let changed = self.with_spare(|| widen(self, &tag, parts))?;
        let lent = match lend(self, &changed, process) {
            Ok(lent) => lent,
            Err(why) => {
                narrow(self, &changed, &tag)?;
                return Err(why);
            }
        };
        self.grants().release(self, id)?;
        Ok(lent)
    }
}

/// Frees the pages of the tag called `name` of `pool` behind `part`, which `process` has by the loan `id` and no longer uses
/// (HO8). The result takes the place of that loan.
///
/// # Errors
/// As [`Pool::widen_loan`]. The pages may be free on the medium; they are not allocated before the loan `id` ends (G2).
pub fn narrow_loan(pool: &Arc<Pool>, name: &str, id: GrantId, part: RoleSpace, process: &Process) -> Result<Lent> {
    let (tag, grant) = (pool.tag(name)?, theirs(pool, id, process)?);
    if tag.generation != grant.tag_generation {
        return Err(in_use(name, "another user of the pool"));
    }
    let keep = first_part(&tag, part.role, part.bytes.div_ceil(PAGE));
    let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[], keep: &keep };
    let changed = pool.change_tag(&tag, &change, |_| Ok(()))?;
    let lent = lend(pool, &changed, process)?;
    pool.grants().release(pool, id)?;
    Ok(lent)
}

/// Returns grant `id` of `process`. Refuses a grant of another process that had the same number (grant G5).
fn theirs(pool: &Pool, id: GrantId, process: &Process) -> Result<StandingGrant> {
    let mut standing = pool.grants().standing().into_iter();
    let theirs = standing.find(|grant| grant.id == id && grant.process == process.identity());
    theirs.ok_or_else(|| Error::NotFound(format!("grant {id} of this process")))
}

/// Narrows `widened` to the tag `before` again, because its holder gets no grant on the new space (HO6).
fn narrow(pool: &Pool, widened: &Tag, before: &Tag) -> Result<()> {
    let change = TagChange { size: before.size, attributes: before.attributes, add: &[], keep: &before.extents };
    let narrowed = pool.change_tag(widened, &change, |_| Ok(()));
    // The client must not take this for a refusal that changed nothing.
    let why = |error| Failure::failed(format!("tag {:?} stays wider: {error}", before.name));
    narrowed.map(drop).map_err(|error| Error::Owner(why(error)))
}

fn lend(pool: &Arc<Pool>, tag: &Tag, process: &Process) -> Result<Lent> {
    let ask = GrantRequest { tag, extents: &tag.extents, rights: GrantRights::ReadWrite, process };
    let board = pool.holdings.board()?;
    let words = board.share()?;
    let (granted, memory) = pool.with_spare(|| pool.lend(&ask))?;
    let word = pool.grants().tie(granted.id, board)?;
    // Without counts the tag is lent all the same.
    let _ = TagCounts::of(pool).begin(tag, granted.id);
    let superblock = pool.superblock();
    let loan = Loan {
        id: granted.id,
        uuid: superblock.uuid,
        session: pool.holdings.next_session(&superblock),
        offset: memory.offset,
        note: Note::of(tag),
        attributes: tag.attributes.to_vec(),
        extents: tag.extents.clone(),
        word,
    };
    Ok(Lent { loan, memory: memory.fd, words })
}
