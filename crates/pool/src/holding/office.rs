//! What an owner does for processes that hold tags of its pool.

use std::path::PathBuf;
use std::sync::Arc;

use ferrite_memory::Error as MediumError;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::grant::{Ask, GrantId, Process, Rights, Standing};
use crate::owner::{Caller, Reply};
use crate::tag::{Tag, TagKind};
use crate::{Error, Pool, Result, TagChange, backup};

use super::spec::{Part, Spec};
use super::tenant::{Lease, Note};
use super::{Listed, in_use, widen};

/// What a tenant asks of the pool's owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// A list of [`Note`].
    TenantTags,
    /// Makes a tag.
    TenantCreate(Spec),
    /// Removes a tag that nobody holds.
    TenantRemove {
        /// Its name.
        name: String,
    },
    /// Writes a backup, while nobody stores through a grant.
    TenantBackup {
        /// The file, an absolute path.
        to: PathBuf,
        /// The image's uuid, random.
        image: [u8; 16],
    },
    /// Takes a tag in hand; a lease, with the pool's memory and the owner's board.
    TenantHold {
        /// Its name.
        name: String,
    },
    /// Gives it back.
    TenantRelease {
        /// The grant.
        id: GrantId,
    },
    /// Widens parts of a held tag; a lease, with the memory and the board, in place of the one there was.
    TenantWiden {
        /// The tag's name.
        name: String,
        /// The grant.
        id: GrantId,
        /// How much it is to have.
        parts: Vec<Part>,
    },
}

/// Does what a tenant asks of `pool` in the boot `boot_id`. What is refused is part of the answer, so that the tenant
/// has it as the error it is.
///
/// # Errors
/// [`Error::Poisoned`] after a failed persist, and what a tenant has no word for.
pub fn answer(pool: &Arc<Pool>, boot_id: [u8; 16], caller: &Caller, request: Request) -> Result<Reply> {
    match perform(pool, boot_id, caller, request) {
        Ok(Reply { value, fds }) => Ok(Reply { value: json!(Answer::Done(value)), fds }),
        Err(error) => {
            // What a failed persist leaves is not known.
            pool.check_poison()?;
            Refusal::of(error).map(|refusal| Reply { value: json!(Answer::<()>::Refused(refusal)), fds: Vec::new() })
        }
    }
}

fn perform(pool: &Arc<Pool>, boot_id: [u8; 16], caller: &Caller, request: Request) -> Result<Reply> {
    let plain = |value| Reply { value, fds: Vec::new() };
    let process = || Process::of(caller, boot_id);
    match request {
        Request::TenantTags => Ok(plain(pool.tags().iter().map(|tag| json!(Note::of(tag))).collect())),
        Request::TenantCreate(spec) => {
            ensure_fit_for_tenants(TagKind(spec.kind))?;
            spec.create(pool).map(|tag| plain(json!(Note::of(&tag))))
        }
        Request::TenantRemove { name } => {
            ensure_fit_for_tenants(pool.tag(&name)?.kind)?;
            pool.remove_unheld(&name).map(|()| Reply::default())
        }
        Request::TenantBackup { to, image } => {
            backup::backup_to(pool, &to, image, &mut |_| true).map(|_| Reply::default())
        }
        Request::TenantHold { name } => {
            let (_listed, tag) = Listed::new(pool, &name, "the pool's owner")?;
            ensure_fit_for_tenants(tag.kind)?;
            lend(pool, &tag, &process())
        }
        Request::TenantRelease { id } => {
            theirs(pool, id, &process())?;
            pool.grants().release(pool, id)?;
            Ok(Reply::default())
        }
        Request::TenantWiden { name, id, parts } => {
            let (tag, grant) = (pool.tag(&name)?, theirs(pool, id, &process())?);
            if tag.generation != grant.tag_generation {
                return Err(in_use(&name, "somebody else"));
            }
            let changed = pool.with_spare(|| widen(pool, &tag, &parts))?;
            let lent = match lend(pool, &changed, &process()) {
                Ok(lent) => lent,
                Err(why) => {
                    narrow(pool, &changed, &tag)?;
                    return Err(why);
                }
            };
            pool.grants().release(pool, id)?;
            Ok(lent)
        }
    }
}

/// What comes back of a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer<T> {
    Done(T),
    Refused(Refusal),
}

/// Why something was refused, in what a caller can tell apart.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Refusal {
    Exists(String),
    NotFound(String),
    BadName(String),
    Busy(String),
    Full { needed_bytes: u64, free_bytes: u64 },
    HostFull(String),
    Limit(String),
}

impl Refusal {
    /// That of `error`, or what it is besides.
    fn of(error: Error) -> Result<Self> {
        match error {
            Error::Exists(name) => Ok(Self::Exists(name)),
            Error::NotFound(name) => Ok(Self::NotFound(name)),
            Error::BadName(name) => Ok(Self::BadName(name)),
            Error::Busy(why) => Ok(Self::Busy(why)),
            Error::Full { needed_bytes, free_bytes } => Ok(Self::Full { needed_bytes, free_bytes }),
            Error::Medium(MediumError::NoSpace(what)) => Ok(Self::HostFull(what)),
            Error::Limit(why) => Ok(Self::Limit(why)),
            other => Err(other),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Exists(name) => Self::Exists(name),
            Refusal::NotFound(name) => Self::NotFound(name),
            Refusal::BadName(name) => Self::BadName(name),
            Refusal::Busy(why) => Self::Busy(why),
            Refusal::Full { needed_bytes, free_bytes } => Self::Full { needed_bytes, free_bytes },
            Refusal::HostFull(what) => Self::Medium(MediumError::NoSpace(what)),
            Refusal::Limit(why) => Self::Limit(why),
        }
    }
}

/// What other services serve by themselves is not lent.
fn ensure_fit_for_tenants(kind: TagKind) -> Result<()> {
    match kind {
        TagKind::OBJECT | TagKind::LOG => Ok(()),
        _ => Err(Error::Busy(format!("a tag of kind {} is not lent: use what serves it", kind.name()))),
    }
}

/// Grant `id`, which is that of `process`, and not of another one that had its number (grant G5).
fn theirs(pool: &Pool, id: GrantId, process: &Process) -> Result<Standing> {
    let mut standing = pool.grants().standing().into_iter();
    let theirs = standing.find(|grant| grant.id == id && grant.process == process.identity());
    theirs.ok_or_else(|| Error::NotFound(format!("grant {id} of this process")))
}

/// Makes of `widened` the tag that it was `before` (HO6): its holder gets no grant on what came to it.
fn narrow(pool: &Pool, widened: &Tag, before: &Tag) -> Result<()> {
    let change = TagChange { size: before.size, attributes: before.attributes, add: &[], keep: &before.extents };
    let narrowed = pool.change_tag(widened, &change, |_| Ok(()));
    // Whoever asked is not to take it for a refusal that changed nothing.
    narrowed.map(drop).map_err(|error| Error::Tenancy(format!("tag {:?} stays wider: {error}", before.name)))
}

fn lend(pool: &Arc<Pool>, tag: &Tag, process: &Process) -> Result<Reply> {
    let ask = Ask { tag, extents: &tag.extents, rights: Rights::ReadWrite, process };
    let board = pool.holdings.board()?;
    let shared = board.share()?;
    let (granted, memory) = pool.with_spare(|| pool.lend(&ask))?;
    let word = pool.grants().tie(granted.id, board)?;
    let superblock = pool.superblock();
    let lease = Lease {
        id: granted.id,
        uuid: superblock.uuid,
        session: pool.holdings.next_session(&superblock),
        offset: memory.offset,
        note: Note::of(tag),
        attributes: tag.attributes.to_vec(),
        extents: tag.extents.clone(),
        word,
    };
    Ok(Reply { value: json!(lease), fds: vec![memory.fd, shared] })
}
