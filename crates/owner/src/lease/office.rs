//! What an owner does for processes that hold tags of its pool.

use std::path::PathBuf;
use std::sync::Arc;

use ferrite_memory::Error as MediumError;
use ferrite_pool::grant::{GrantId, Process};
use ferrite_pool::holding::{Lent, Note, Part, Spec, ensure_lendable};
use ferrite_pool::{Caller, Error, Pool, Result, TagKind, backup};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Reply;

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
    let lent = |lent: Lent| Reply { value: json!(lent.loan), fds: vec![lent.memory, lent.words] };
    let process = || Process::of(caller, boot_id);
    match request {
        Request::TenantTags => Ok(plain(pool.tags().iter().map(|tag| json!(Note::of(tag))).collect())),
        Request::TenantCreate(spec) => {
            ensure_lendable(TagKind(spec.kind))?;
            spec.create(pool).map(|tag| plain(json!(Note::of(&tag))))
        }
        Request::TenantRemove { name } => {
            ensure_lendable(pool.tag(&name)?.kind)?;
            pool.remove_unheld(&name).map(|()| Reply::default())
        }
        Request::TenantBackup { to, image } => {
            backup::backup_to(pool, &to, image, &mut |_| true).map(|_| Reply::default())
        }
        Request::TenantHold { name } => pool.lend_tag(&name, &process()).map(lent),
        Request::TenantRelease { id } => pool.end_loan(id, &process()).map(|()| Reply::default()),
        Request::TenantWiden { name, id, parts } => pool.widen_loan(&name, id, &parts, &process()).map(lent),
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
