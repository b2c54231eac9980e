//! How a command reaches a pool: through its owner if it has one, else by becoming that.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferrite_pool::owner::{Claim, Client, Listening, Lock, claim};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bar::Bar;
use crate::engine::Engine;
use crate::medium::MediumArguments;
use crate::outcome::Outcome;
use crate::request::Request;
use crate::stop::{self, Asked, Stop};

/// How long an owner that has just started may take until it takes calls.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long who uses a node may take to let go when the owner ends.
const USERS_PATIENCE: Duration = Duration::from_secs(10);

/// A pool at hand.
pub enum Reach {
    /// It is ours.
    Ours(Arc<Engine>),
    /// Its owner does what we ask.
    Theirs(Client),
}

impl Reach {
    /// Reaches the pool at `path`.
    pub fn new(path: &Path) -> Outcome<Self> {
        match claim(path)? {
            Claim::Ours(lock) => Ok(Self::Ours(open(lock, &MediumArguments::default())?)),
            Claim::Held(_) => Ok(Self::Theirs(Client::connect_within(path, PATIENCE)?)),
        }
    }

    /// Asks for `request`, with `fd` where it needs one. Shows how far it has come; Ctrl-C cancels it.
    pub fn ask<T: DeserializeOwned>(&mut self, request: Request, fd: Option<BorrowedFd<'_>>) -> Outcome<T> {
        let bar = Bar::new();
        let value: Value = match self {
            Self::Ours(engine) => {
                let fds = fd.map(|fd| fd.try_clone_to_owned()).transpose()?;
                engine.execute(request, fds.into_iter().collect(), std::process::id(), &mut |it| bar.show(&it))?
            }
            Self::Theirs(client) => {
                let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
                client.call(serde_json::to_value(request)?, &fds, &mut |it| bar.show(&it))?.0
            }
        };
        Ok(serde_json::from_value(value)?)
    }

    /// Lets go of it in order.
    pub fn close(self) -> Outcome {
        match self {
            Self::Ours(engine) => Arc::into_inner(engine).map_or(Ok(()), Engine::close),
            Self::Theirs(_) => Ok(()),
        }
    }

    /// Takes the calls of other commands, where the pool is ours.
    pub fn listen(&self) -> Outcome<Option<Listening>> {
        match self {
            Self::Ours(engine) => Ok(Some(engine.lock().listen(engine.clone())?)),
            Self::Theirs(_) => Ok(None),
        }
    }

    /// Serves until somebody asks this process to end; then takes nodes away, stops and closes in order. When the power
    /// fails it writes a backup to `backup` and goes on.
    pub fn hold(self, listening: Option<Listening>, stop: &mut Stop, backup: Option<&Path>) -> Outcome {
        let warm = match &self {
            Self::Ours(engine) => Some(engine.warm()),
            Self::Theirs(_) => None,
        };
        while stop.wait() == Asked::PowerFails {
            if let (Self::Ours(engine), Some(to)) = (&self, backup) {
                save(engine, to);
            }
        }
        drop(warm);
        if let Self::Ours(engine) = &self {
            take_nodes_away(engine, stop);
        }
        if let Some(listening) = listening {
            listening.stop()?;
        }
        self.close()
    }

    /// Whose it is, when it is another process's.
    pub fn owner_pid(&self) -> Option<u32> {
        match self {
            Self::Ours(_) => None,
            Self::Theirs(client) => Some(client.owner_pid()),
        }
    }
}

/// Writes a backup because the power fails. Whatever comes of it, serving goes on.
fn save(engine: &Engine, to: &Path) {
    let request = Request::PoolBackup { to: to.into() };
    match engine.execute(request, Vec::new(), std::process::id(), &mut |_| true) {
        Ok(_) => eprintln!("the power fails: backed up to {}", to.display()),
        Err(failure) => eprintln!("the power fails, and the backup does too: {}", failure.text()),
    }
}

/// Waits for who uses the nodes, and says who that is; a second signal or [`USERS_PATIENCE`] ends the wait.
fn take_nodes_away(engine: &Engine, stop: &mut Stop) {
    let mut told = Vec::new();
    for _ in 0..USERS_PATIENCE.as_secs() {
        let busy = engine.served().detach_all();
        if busy.is_empty() {
            return;
        }
        if busy != told {
            busy.iter().for_each(|why| eprintln!("waiting: {why}; Ctrl-C again to go on without"));
            told = busy;
        }
        if stop.wait_for(Duration::from_secs(1)) {
            return;
        }
    }
}

/// Opens the pool that `lock` holds and says on standard error what it survives.
pub fn open(lock: Lock, arguments: &MediumArguments) -> Outcome<Arc<Engine>> {
    let engine = Arc::new(Engine::open(lock, arguments)?);
    eprintln!("pool {}: {}", engine.lock().path().display(), engine.medium().line);
    Ok(engine)
}

/// Reaches the pool at `path`, asks one thing, and lets go.
pub fn ask<T: DeserializeOwned>(path: &Path, request: Request, fd: Option<BorrowedFd<'_>>) -> Outcome<T> {
    stop::watch()?;
    let mut reach = Reach::new(path)?;
    let answer = reach.ask(request, fd);
    reach.close()?;
    answer
}
