//! The service "lease": other processes store into tags of the pool by themselves.

use std::sync::Arc;

use ferrite_pool::grant::{GrantId, Process};
use ferrite_pool::holding::{Lent, Note, RoleSpace, TagSpec, ensure_lendable, narrow_loan};
use ferrite_pool::{Failure, Pool, TagKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{LEASE, parse};
use crate::{ServiceCall, ServiceReply, TypedRequest};

/// A request of the service "lease".
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum LeaseRequest {
    /// Lists the tags: [`Note`]s.
    List,
    /// Creates a tag; the answer is its [`Note`].
    Create(TagSpec),
    /// Removes a tag that no process holds.
    Remove {
        /// The name of the tag.
        name: String,
    },
    /// Lends a tag; the answer is a [`ferrite_pool::holding::Loan`], with the pool's memory and the shared words.
    Hold {
        /// The name of the tag.
        name: String,
    },
    /// Ends a loan.
    Release {
        /// The grant of the loan.
        id: GrantId,
    },
    /// Widens parts of a lent tag; the answer is a loan that replaces the old one, with the same descriptors.
    Widen {
        /// The name of the tag.
        name: String,
        /// The grant of the loan.
        id: GrantId,
        /// The wanted bytes of each part.
        parts: Vec<RoleSpace>,
    },
    /// Frees the pages of a lent tag behind a part, which the holder uses no longer; the answer is a loan that replaces the
    /// old one, with the same descriptors.
    Narrow {
        /// The name of the tag.
        name: String,
        /// The grant of the loan.
        id: GrantId,
        /// The role, and the bytes of it that stay.
        part: RoleSpace,
    },
}

impl TypedRequest for LeaseRequest {
    const SERVICE: &'static str = LEASE;
}

/// Does what `call` asks of `pool`, in the boot `boot_id`.
pub(crate) fn answer(pool: &Arc<Pool>, boot_id: [u8; 16], call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
    let process = Process::of(call.caller, boot_id);
    perform(pool, &process, parse(LEASE, call.request)?).map_err(|error| {
        // After a failed persist the state of the tag is not known, whatever the error says.
        pool.check_poison().err().unwrap_or(error).into()
    })
}

fn perform(pool: &Arc<Pool>, process: &Process, request: LeaseRequest) -> ferrite_pool::Result<ServiceReply> {
    let plain = |value| ServiceReply { value, fds: Vec::new() };
    let lent = |lent: Lent| ServiceReply { value: json!(lent.loan), fds: vec![lent.memory, lent.words] };
    match request {
        LeaseRequest::List => Ok(plain(pool.tags().iter().map(|tag| json!(Note::of(tag))).collect::<Value>())),
        LeaseRequest::Create(spec) => {
            ensure_lendable(TagKind(spec.kind))?;
            spec.create(pool).map(|tag| plain(json!(Note::of(&tag))))
        }
        LeaseRequest::Remove { name } => {
            ensure_lendable(pool.tag(&name)?.kind)?;
            pool.remove_unheld(&name).map(|()| ServiceReply::default())
        }
        LeaseRequest::Hold { name } => pool.lend_tag(&name, None, process).map(lent),
        LeaseRequest::Release { id } => pool.end_loan(id, process).map(|()| ServiceReply::default()),
        LeaseRequest::Widen { name, id, parts } => pool.widen_loan(&name, id, &parts, process).map(lent),
        LeaseRequest::Narrow { name, id, part } => narrow_loan(pool, &name, id, part, process).map(lent),
    }
}
