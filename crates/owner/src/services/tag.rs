//! The service "tag": tags by their names, and grants on the pages of plain bytes.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::sync::Arc;

use ferrite_memory::{Error as MediumError, Span};
use ferrite_pool::grant::{GrantId, GrantRequest, GrantRights, Process};
use ferrite_pool::{Caller, Error as PoolError, Failure, FailureKind, PutOptions, Role, Stream, Tag, TagKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{TAG, parse, reply};
use crate::pool_owner::OwnerCore;
use crate::progress_io::WatchedFiles;
use crate::{ProgressCall, Removal, ServiceCall, ServiceReply, TagReport, TypedRequest};

/// A request of the service "tag".
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum TagRequest {
    /// Lists the tags: [`TagReport`]s.
    List,
    /// Stores the content of the descriptors that come with the request, one behind the other; a [`TagReport`].
    Put {
        /// The name of the tag.
        name: String,
        /// The bytes of the tag that has the name, if they may be lost.
        lose: Option<u64>,
    },
    /// Writes the content of a tag to the descriptor that comes with the request.
    Get {
        /// The name of the tag.
        name: String,
    },
    /// Removes a tag that no process uses, of a kind that has no command of its own for that.
    Remove {
        /// The name of the tag.
        name: String,
    },
    /// Returns the state of a tag, as its service reports it.
    Stat {
        /// The name of the tag.
        name: String,
    },
    /// Grants the pages of a tag of plain bytes: a [`GrantReport`], with the pool's memory and the notice.
    Grant {
        /// The name of the tag.
        name: String,
        /// True to store, too, not only to load.
        write: bool,
    },
    /// Ends a grant.
    GrantRelease {
        /// The grant.
        id: GrantId,
    },
}

impl TypedRequest for TagRequest {
    const SERVICE: &'static str = TAG;
}

/// A grant on plain bytes. Two descriptors come with it: the pool's memory, and a notice that becomes readable when the
/// owner revokes the grant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantReport {
    /// The grant.
    pub id: GrantId,
    /// Where the tag's bytes lie in the memory: the first byte and the length of each run, in order.
    pub runs: Vec<(u64, u64)>,
    /// Bytes of the tag.
    pub size_bytes: u64,
}

/// Does what `call` asks.
pub(crate) fn answer(owner: &OwnerCore, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
    let ServiceCall { caller, request, fds, progress, .. } = call;
    let pool = owner.pool();
    match parse(TAG, request)? {
        TagRequest::List => {
            let report = |tag: &Arc<Tag>| described(owner, tag);
            reply(&pool.tags().iter().map(report).collect::<Vec<_>>())
        }
        TagRequest::Put { name, lose } => put(owner, &name, lose, fds.into_iter().map(File::from).collect(), progress),
        TagRequest::Get { name } => {
            let file = fds.into_iter().next().ok_or_else(no_descriptor)?;
            get(owner, &name, file.into(), progress)
        }
        TagRequest::Remove { name } => remove(owner, &name),
        TagRequest::Stat { name } => {
            let tag = pool.tag(&name)?;
            reply(&owner.running().of(tag.kind).and_then(|service| service.stat(&tag)))
        }
        TagRequest::Grant { name, write } => grant(owner, &name, write, caller),
        TagRequest::GrantRelease { id } => release(owner, id, caller),
    }
}

/// Describes `tag`; a kind that the pool has no name for is called as its service.
fn described(owner: &OwnerCore, tag: &Tag) -> TagReport {
    let report = TagReport::of(tag);
    match owner.registry().of(tag.kind) {
        Some(service) if !tag.kind.is_known() => TagReport { kind: service.name().into(), ..report },
        _ => report,
    }
}

fn no_descriptor() -> Failure {
    Failure::new(FailureKind::BadRequest, "the request came without its descriptor")
}

fn put(
    owner: &OwnerCore,
    name: &str,
    lose: Option<u64>,
    files: Vec<File>,
    progress: ProgressCall<'_>,
) -> Result<ServiceReply, Failure> {
    let sizes = files.iter().map(|file| Some(file.metadata().ok().filter(Metadata::is_file)?.len()));
    let size = sizes.sum::<Option<u64>>().unwrap_or(0);
    let put = PutOptions { lose, size_hint_bytes: (size > 0).then_some(size) };
    let mut content = WatchedFiles::several(files, "storing", size, progress).ok_or_else(no_descriptor)?;
    let tag = owner.pool().put(name, &mut content, &put);
    let tag = tag.map_err(|error| owner.registry().taken(owner.pool(), error))?;
    reply(&described(owner, &tag))
}

fn get(owner: &OwnerCore, name: &str, file: File, progress: ProgressCall<'_>) -> Result<ServiceReply, Failure> {
    let size = owner.pool().tag(name)?.size;
    match owner.pool().get(name, &mut WatchedFiles::new(file, "reading", size, progress)) {
        // A reader that has ended, as in `| head`, is not a failure.
        Err(PoolError::Medium(MediumError::Io { source, .. })) if source.kind() == ErrorKind::BrokenPipe => {
            reply(&Value::Null)
        }
        got => reply(&json!({ "bytes": got? })),
    }
}

fn remove(owner: &OwnerCore, name: &str) -> Result<ServiceReply, Failure> {
    let tag = owner.pool().tag(name)?;
    if tag.kind == TagKind::BYTES {
        return reply(&owner.pool().remove_tag(&tag)?);
    }
    let removal = owner.registry().of(tag.kind).map(|service| service.removal());
    match removal {
        Some(Removal::ByCommand { noun, command }) => {
            Err(Failure::refused(format!("{name:?} is {noun}: use `{command}`")))
        }
        Some(Removal::Refused(why)) => Err(Failure::refused(format!("{name:?} is {why}"))),
        None if is_served_elsewhere(tag.kind) => Err(Failure::new(
            FailureKind::NotServed,
            format!("{name:?} is of kind {}, which {}", tag.kind.name(), owner.elsewhere()),
        )),
        _ => reply(&owner.pool().remove_unheld(name)?),
    }
}

/// Returns true for the kinds that only their own service may remove, and that some programs do not link.
fn is_served_elsewhere(kind: TagKind) -> bool {
    matches!(kind, TagKind::DISK | TagKind::FILES | TagKind::DATABASE)
}

fn grant(owner: &OwnerCore, name: &str, write: bool, caller: &Caller) -> Result<ServiceReply, Failure> {
    let pool = owner.pool();
    let tag = pool.tag(name)?;
    if tag.kind != TagKind::BYTES {
        let why = format!("{name:?} is of kind {}: grants are for plain bytes", tag.kind.name());
        return Err(Failure::new(FailureKind::WrongKind, why));
    }
    let rights = if write { GrantRights::ReadWrite } else { GrantRights::Read };
    let process = Process::of(caller, owner.boot_id());
    let ask = GrantRequest { tag: &tag, extents: &tag.extents, rights, process: &process };
    let (granted, memory) = pool.with_spare(|| pool.lend(&ask))?;
    let stream = Stream::new(&tag.extents, Role::DATA);
    let runs = stream.runs(Span::new(0, tag.size)).map(|run| (run.at + memory.offset, run.len)).collect();
    let report = GrantReport { id: granted.id, runs, size_bytes: tag.size };
    Ok(ServiceReply { value: json!(report), fds: vec![memory.fd, granted.notice] })
}

fn release(owner: &OwnerCore, id: GrantId, caller: &Caller) -> Result<ServiceReply, Failure> {
    let (grants, process) = (owner.pool().grants(), Process::of(caller, owner.boot_id()).identity());
    if !grants.standing().iter().any(|grant| grant.id == id && grant.process == process) {
        return Err(Failure::not_found(format!("this process has no grant {id}")));
    }
    grants.release(owner.pool(), id)?;
    Ok(ServiceReply::default())
}
