//! The owner against clients of every kind: well-behaved, garbled, oversized, slow, stopped, killed.

mod access;
mod calls;
mod claims;
mod grants;
mod hostile;
mod places;
mod role;
mod versions;
mod wire;

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_memory::process::effective_user;
use ferrite_pool::{Claim, Failure, FailureKind, Holder, Lock, LockError, PidFd, Progress, claim};
use serde_json::{Value, json};

use super::*;

/// Far longer than anything here takes; ends a test that would hang.
const NEVER: Duration = Duration::from_secs(60);

/// What the handler has seen.
#[derive(Debug, PartialEq)]
enum Seen {
    Waiting,
    Cancelled,
    Gone(u32),
}

/// A handler that obeys the requests of these tests.
struct Obedient(Mutex<Sender<Seen>>);

impl Obedient {
    fn new() -> (Arc<Self>, Receiver<Seen>) {
        let (seen, heard) = channel();
        (Arc::new(Self(Mutex::new(seen))), heard)
    }

    fn see(&self, what: Seen) {
        let _ = self.0.lock().expect("seen").send(what);
    }
}

impl Handler for Obedient {
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        let ServiceCall { caller, request, fds, progress, .. } = call;
        let step = |done| Progress { done, total: 0, what: "counting".into() };
        let number = request["n"].as_u64().unwrap_or(0);
        match request["do"].as_str() {
            Some("echo") => Ok(ServiceReply { value: request, fds }),
            Some("who") => {
                Ok(ServiceReply { value: json!([caller.pid, caller.uid, caller.process.is_alive()]), fds: vec![] })
            }
            Some("count") => {
                (0..number).for_each(|done| assert!(progress(step(done))));
                Ok(ServiceReply { value: number.into(), fds: vec![] })
            }
            Some("big") => Ok(ServiceReply { value: "x".repeat(number as usize).into(), fds: vec![] }),
            Some("panic") => panic!("as told"),
            Some("wait") => {
                self.see(Seen::Waiting);
                while progress(step(0)) {}
                self.see(Seen::Cancelled);
                Err(Failure::new(FailureKind::Cancelled, "cancelled"))
            }
            _ => Err(Failure::new(FailureKind::BadRequest, "no such call")),
        }
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        self.see(Seen::Gone(ended.caller.pid));
    }
}

/// A pool file, and an owner listening beside it.
struct Served {
    folder: tempfile::TempDir,
    listening: Option<ListeningSocket>,
    heard: Receiver<Seen>,
}

impl Served {
    fn new() -> Self {
        Self::within(ListenLimits::default())
    }

    fn within(limits: ListenLimits) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        File::create(folder.path().join("pool")).expect("pool");
        let (handler, heard) = Obedient::new();
        let lock = ours(claim(&folder.path().join("pool")).expect("claim"));
        let listening = Some(ListeningSocket::start_within(&lock, handler, limits).expect("listen"));
        Self { folder, listening, heard }
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn client(&self) -> OwnerClient {
        OwnerClient::connect(&self.pool()).expect("connect")
    }

    /// A connection that has said nothing yet.
    fn raw(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("pool.sock")).expect("raw connection")
    }

    fn hears(&self) -> Seen {
        self.heard.recv_timeout(NEVER).expect("the handler sees something")
    }

    fn is_well(&self) {
        assert_eq!(ask(&mut self.client(), json!({"do": "echo", "n": 7})).expect("echo")["n"], 7);
    }
}

fn ours(claim: Claim) -> Lock {
    match claim {
        Claim::Ours(lock) => lock,
        Claim::Held(holder) => panic!("{holder}"),
    }
}

/// A request to the one service of these tests.
fn to(request: &Value) -> ServiceRequest<'static> {
    ServiceRequest::new("test", request)
}

fn ask(client: &mut OwnerClient, request: Value) -> Result<Value> {
    client.call(to(&request), &mut |_| true).map(|(value, _)| value)
}
