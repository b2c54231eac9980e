//! What a pool's owner does for other processes.

use ferrite_fs::share::layout::request::ClientRequest;
use ferrite_memory::Span;
use ferrite_owner::{Call, Handler, Parted, Reply, lease};
use ferrite_pool::grant::{Ask, GrantId, Process, Rights};
use ferrite_pool::{Caller, Role, Stream, TagKind};
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
        if let Ok(request) = ClientRequest::deserialize(&request) {
            return self.trees().answer(caller, &request);
        }
        if let Ok(request) = lease::Request::deserialize(&request) {
            let boot_id = host::boot_id().map_err(|error| error.to_string())?;
            return lease::answer(self.pool(), boot_id, caller, request).map_err(|error| error.to_string());
        }
        if let Ok(request) = ferrite_sqlite_log::Request::deserialize(&request) {
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
        let _ = parted.reap(self.pool());
    }
}

fn grant(engine: &Engine, name: &str, write: bool, caller: &Caller) -> Outcome<Reply> {
    let tag = engine.pool().tag(name)?;
    if tag.kind != TagKind::BYTES {
        return Err(format!("{name:?} is of kind {}: grants are for plain bytes", tag.kind.name()).into());
    }
    let rights = if write { Rights::ReadWrite } else { Rights::Read };
    let process = Process::of(caller, host::boot_id()?);
    let ask = Ask { tag: &tag, extents: &tag.extents, rights, process: &process };
    let (granted, memory) = engine.pool().with_spare(|| engine.pool().lend(&ask))?;
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::sync::{Arc, Weak};

    use ferrite_memory::{Guard, MapOptions, Mapped};
    use ferrite_pool::layout::{PAGE, POOL_BYTES_MIN};
    use ferrite_pool::{Claim, Format, Freeze, NewTag, PidFd, Pool, SpaceNeed, Zone, claim};

    use super::*;
    use crate::medium::MediumArguments;

    /// A service that needs the tag `hoard` no more.
    struct Hoard(Weak<Pool>);

    impl Freeze for Hoard {
        fn freeze(&self) {}

        fn thaw(&self) {}

        fn spare(&self) -> bool {
            let pool = self.0.upgrade().expect("it is asked by it");
            pool.tag("hoard").is_ok_and(|tag| pool.remove_tag(&tag).is_ok())
        }
    }

    fn put(pool: &Pool, name: &str, pages: u64) -> ferrite_pool::Result<()> {
        let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: pages * PAGE }];
        let new = NewTag { name, kind: TagKind::BYTES, size: pages * PAGE, attributes: [0; 64], needs: &needs };
        pool.create_tag(&new, |_| Ok(())).map(drop)
    }

    /// A pool without room, with a value `a` of pages that lie apart.
    fn full(folder: &Path) -> Engine {
        let path = folder.join("pool");
        File::create(&path).and_then(|file| file.set_len(POOL_BYTES_MIN)).expect("a file");
        let Ok(Claim::Ours(lock)) = claim(&path) else { panic!("nobody else has it") };
        let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
        let memory = Mapped::map(lock.file().try_clone().expect("a descriptor"), &options).expect("memory");
        Pool::create(&memory, &Format { uuid: [1; 16], boot_id: [2; 16] }).expect("a pool");
        let Ok(engine) = Engine::open(lock, &MediumArguments::default()) else { panic!("it opens") };
        let pool = engine.pool();
        put(pool, "hoard", 1).expect("room");
        let names: Vec<String> =
            (0..).map(|number| number.to_string()).take_while(|it| put(pool, it, 1).is_ok()).collect();
        let every_second = names.iter().step_by(2).take(5);
        every_second.for_each(|name| pool.tag(name).and_then(|tag| pool.remove_tag(&tag)).expect("it goes"));
        put(pool, "a", pool.usage().free_bytes / PAGE).expect("room");
        engine
    }

    /// The grant of a value in many pieces needs a page for the list of them, and it is mapped also to be read.
    #[test]
    fn a_value_in_pieces_is_granted_in_a_full_pool_that_services_have_space_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = full(folder.path());
        let pid = std::process::id();
        let caller = Caller { pid, uid: 0, process: PidFd::open(pid).expect("it lives"), connection: 0 };
        let Err(refused) = grant(&engine, "a", false, &caller) else { panic!("there is room") };
        assert!(refused.text().starts_with("the pool is full"), "{}", refused.text());
        let hoard: Arc<dyn Freeze> = Arc::new(Hoard(Arc::downgrade(engine.pool())));
        engine.pool().register_freezer(Arc::downgrade(&hoard));
        let granted = grant(&engine, "a", false, &caller).map_err(|why| why.text().to_string());
        assert_eq!(granted.map(|reply| reply.fds.len()), Ok(2));
        assert!(engine.pool().tag("hoard").is_err());
    }
}
