//! What a pool's owner does for other processes.

use ferrite_fs::direct;
use ferrite_medium::Span;
use ferrite_pool::grant::{Ask, GrantId, Process, Rights};
use ferrite_pool::owner::{Call, Caller, Handler, Parted, Reply};
use ferrite_pool::{Role, Stream, TagKind, holding};
use ferrite_wal::database;
use serde::Deserialize;
use serde_json::json;

use crate::engine::Engine;
use crate::host;
use crate::outcome::Outcome;
use crate::request::{GrantReport, Request};
use crate::standpoint::{STANDPOINT, Standpoint};

impl Handler for Engine {
    fn call(&self, call: Call<'_>) -> Result<Reply, String> {
        let Call { caller, request, fds, progress } = call;
        // First who waits for it amid a write.
        if let Ok(request) = direct::Request::deserialize(&request) {
            return self.trees().answer(caller, &request);
        }
        if let Ok(request) = holding::Request::deserialize(&request) {
            let boot_id = host::boot_id().map_err(|error| error.to_string())?;
            return holding::answer(self.pool(), boot_id, caller, request).map_err(|error| error.to_string());
        }
        if let Ok(request) = database::Request::deserialize(&request) {
            return self.databases().answer(caller, request).map_err(|error| error.to_string());
        }
        let sender = request.get(STANDPOINT).cloned();
        let request =
            serde_json::from_value(request).map_err(|error| format!("no request of this version: {error}"))?;
        let sender: Option<Standpoint> = sender.and_then(|it| serde_json::from_value(it).ok());
        sender.map_or(Ok(()), |sender| sender.ensure_shared(&request))?;
        let done = match request {
            Request::Grant { name, write } => grant(self, &name, write, caller),
            Request::GrantRelease { id } => release(self, id, caller),
            other => self
                .execute(other, fds, Some(caller.connection), progress)
                .map(|value| Reply { value, fds: Vec::new() }),
        };
        done.map_err(|failure| failure.text().into())
    }

    fn gone(&self, parted: &Parted<'_>) {
        self.served().end_for(parted.caller.connection);
        self.trees().end_sessions_of(parted.caller.connection);
        // What cannot be ended now is found by the next one, and at the next opening.
        let _ = self.pool().grants().reap_behind(self.pool(), parted);
    }
}

fn grant(engine: &Engine, name: &str, write: bool, caller: &Caller) -> Outcome<Reply> {
    let tag = engine.pool().tag(name)?;
    if tag.kind != TagKind::BYTES {
        return Err(format!("{name:?} is of kind {}: grants are for plain bytes", tag.kind.name()).into());
    }
    let rights = if write { Rights::ReadWrite } else { Rights::Read };
    let process = Process::of(caller, host::boot_id()?);
    let ask = Ask { tag: &tag, extents: &tag.extents, rights, process: &process, reserve: &[] };
    let (granted, memory) = engine.pool().lend(&ask)?;
    let stream = Stream::new(&tag.extents, Role::DATA);
    let runs = stream.runs(Span::new(0, tag.size)).map(|run| (run.at + memory.offset, run.len)).collect();
    let report = GrantReport { id: granted.id, runs, size_bytes: tag.size };
    Ok(Reply { value: json!(report), fds: vec![memory.fd, granted.notice] })
}

fn release(engine: &Engine, id: GrantId, caller: &Caller) -> Outcome<Reply> {
    let (standing, process) = (engine.pool().grants().standing(), Process::of(caller, host::boot_id()?).identity());
    if !standing.iter().any(|grant| grant.id == id && grant.process == process) {
        return Err(format!("this process has no grant {id}").into());
    }
    engine.pool().grants().release(engine.pool(), id)?;
    Ok(Reply::default())
}
