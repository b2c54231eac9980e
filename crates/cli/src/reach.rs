//! How a command reaches a pool: through its owner if it has one, else by becoming that.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_owner::{Client, Error, Listening};
use ferrite_pool::{Claim, Holder, Lock, LockError, Progress, claim};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bar::Bar;
use crate::engine::Engine;
use crate::host;
use crate::medium::MediumArguments;
use crate::mounts;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::paths::quoted;
use crate::request::{PoolReport, Request};
use crate::standpoint::{STANDPOINT, Standpoint};
use crate::stop::{self, Asked, Stop};

/// How long whoever has a pool and takes no calls is waited for: an owner that has just started, or another command
/// that has the pool for a moment.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks at who has it.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause between two looks whether an owner that serves something for us is still there, or whether anything that we
/// serve is used.
const LOOKS: Duration = Duration::from_secs(1);
/// How long who uses a mount or a node may take to let go when the owner ends.
const USERS_PATIENCE: Duration = Duration::from_secs(10);

/// Who has a pool.
pub enum Found {
    /// This process, from now on.
    Ours(Lock),
    /// An owner that takes calls.
    Theirs(Client, Holder),
}

/// How long a pool is held.
#[derive(Clone, Copy, Debug)]
pub enum Until<'a> {
    /// Until somebody asks this process to end. When the power fails a backup is written there, if somewhere.
    Asked { backup: Option<&'a Path> },
    /// Until the program that [`Stop::when`] waits for has ended. That program gets the signals.
    Done { backup: Option<&'a Path> },
    /// Also until nothing of it is mounted, attached or served any more, and no other process is connected.
    Unused,
}

/// Takes the pool at `path`, or reaches its owner. A command that has it for a moment is waited for.
pub fn find(path: &Path) -> Outcome<Found> {
    look_at(path)?;
    let until = Instant::now() + PATIENCE;
    loop {
        let holder = match claim(path).map_err(|error| refused(path, error.into()))? {
            Claim::Ours(lock) => return Ok(Found::Ours(lock)),
            Claim::Held(holder) => holder,
        };
        if holder.is_dying() {
            make_way(path, &holder, until)?;
            continue;
        }
        match Client::connect(path) {
            Ok(client) => return Ok(Found::Theirs(client, holder)),
            Err(Error::NoOwner(_) | Error::Silent { .. } | Error::Died)
                if Instant::now() < until && !stop::is_asked() =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Has an owner that was killed come to its end; an error where it does not for too long.
fn make_way(path: &Path, holder: &Holder, until: Instant) -> Outcome {
    mounts::cut_off(path, holder);
    if Instant::now() < until && !stop::is_asked() {
        std::thread::sleep(PAUSE);
        return Ok(());
    }
    let points: Vec<String> =
        mounts::unanswered(path).iter().map(|point| format!(", or as root `umount -f {}`", point.display())).collect();
    Err(format!(
        "{} is {holder}, which was killed and waits in the kernel for programs that use what it had mounted: end those{}",
        path.display(),
        points.concat()
    )
    .into())
}

/// Says of what cannot be a pool that is reached what to do instead.
pub fn look_at(path: &Path) -> Outcome {
    let (name, typed) = (path.display(), quoted(path));
    match fs::metadata(path) {
        _ if path.as_os_str().is_empty() => Err(Failure::Usage("the pool's path is empty: name its file".into())),
        Ok(found) if found.is_dir() => Err(format!("{name} is a folder: name a file in it").into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "there is no {name}: `ferrite pool create {typed} --size 1G` makes a pool, `ferrite up --pool {typed}` one with \
             a disk in it"
        )
        .into()),
        Err(error) => Err(format!("looking at {name}: {error}").into()),
        Ok(_) => Ok(()),
    }
}

/// A pool is its user's alone, who may have forgotten that, or may not write to it as its mode is.
pub fn refused(path: &Path, error: Error) -> Failure {
    let name = path.display();
    match &error {
        Error::Io { source, .. } | Error::Lock(LockError::Io { source, .. })
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            match own_mode(path) {
                Some(mode) if mode & 0o600 != 0o600 => format!(
                    "{name} is yours, and its mode, {mode:03o}, keeps you from reading and writing it: `chmod u+rw {}`",
                    quoted(path)
                ),
                _ => format!("{name} is not yours to read and write: ask as its user, or as root"),
            }
            .into()
        }
        _ => error.into(),
    }
}

/// The rights at `path`, where that is this user's own.
fn own_mode(path: &Path) -> Option<u32> {
    let (user, _) = host::user().ok()?;
    let found = fs::metadata(path).ok().filter(|found| found.uid() == user)?;
    Some(found.mode() & 0o777)
}

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
        match find(path)? {
            Found::Ours(lock) => Ok(Self::Ours(Arc::new(Engine::open(lock, &MediumArguments::default())?))),
            Found::Theirs(client, _) => Ok(Self::Theirs(client)),
        }
    }

    /// Reaches the pool at `path`; on the medium that was asked for, if it becomes ours. Says what the pool survives.
    pub fn with(path: &Path, medium: &MediumArguments) -> Outcome<Self> {
        let mut reach = match find(path)? {
            Found::Ours(lock) => Self::Ours(Arc::new(Engine::open(lock, medium)?)),
            Found::Theirs(_, holder) if !medium.is_default() => {
                return Err(Failure::Failed(format!(
                    "{} is {holder}: its guard, pace, wear and trust hold for all of it, so end that first to choose others",
                    path.display()
                )));
            }
            Found::Theirs(client, _) => Self::Theirs(client),
        };
        tell_survival(&reach.ask(Request::PoolInfo, None)?);
        Ok(reach)
    }

    /// Asks for `request`, with `fds` where it needs some. Shows how far it has come; Ctrl-C cancels it.
    pub fn ask<'fd, T: DeserializeOwned>(
        &mut self,
        request: Request,
        fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
    ) -> Outcome<T> {
        self.call(request, Vec::from_iter(fds), true)
    }

    /// Asks as [`Reach::ask`] does. A signal does not cancel the request: the caller knows what it made or removed.
    pub fn ask_to_end<T: DeserializeOwned>(&mut self, request: Request) -> Outcome<T> {
        self.call(request, Vec::new(), false)
    }

    fn call<T: DeserializeOwned>(
        &mut self,
        request: Request,
        fds: Vec<BorrowedFd<'_>>,
        is_cancelled_by_signals: bool,
    ) -> Outcome<T> {
        let bar = Bar::new();
        let watch = &mut |it: Progress| bar.show(&it) || !is_cancelled_by_signals;
        let value: Value = match self {
            Self::Ours(engine) => {
                let fds: std::io::Result<_> = fds.into_iter().map(|fd| fd.try_clone_to_owned()).collect();
                engine.execute(request, fds?, None, watch)?
            }
            Self::Theirs(client) => client.call(as_sent(&request)?, &fds, watch)?.0,
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
            Self::Ours(engine) => Ok(Some(Listening::start(engine.lock(), engine.clone())?)),
            Self::Theirs(_) => Ok(None),
        }
    }

    /// Serves what has `begun` for so long; then takes nodes away, stops and closes in order, as it does at once where
    /// the beginning failed.
    pub fn hold(self, begun: Outcome<Option<Listening>>, stop: &Stop, until: Until<'_>) -> Outcome {
        let listening = match begun {
            Ok(listening) => listening,
            Err(failure) => {
                if let Self::Ours(engine) = &self {
                    take_all_away(engine, stop);
                }
                return and_then_cleared(Err(failure), self.close());
            }
        };
        let engine = match self {
            Self::Ours(engine) => engine,
            Self::Theirs(client) => return hold_theirs(client, stop),
        };
        let warm = engine.warm();
        let listening = await_end(&engine, listening, stop, until)?;
        drop(warm);
        take_all_away(&engine, stop);
        listening.map_or(Ok(()), Listening::stop)?;
        Self::Ours(engine).close()
    }

    /// It, where it is ours and the one at `path`.
    pub fn ours_at(&self, path: &Path) -> Option<&Arc<Engine>> {
        match self {
            Self::Ours(engine) if path.canonicalize().is_ok_and(|path| path == engine.lock().path()) => Some(engine),
            _ => None,
        }
    }

    /// Whose it is, when it is another process's.
    pub fn owner_pid(&self) -> Option<u32> {
        match self {
            Self::Ours(_) => None,
            Self::Theirs(client) => Some(client.owner_pid()),
        }
    }
}

/// `request` as it travels, with what its paths are here.
fn as_sent(request: &Request) -> Outcome<Value> {
    let mut sent = serde_json::to_value(request)?;
    sent[STANDPOINT] = serde_json::to_value(Standpoint::of(request))?;
    Ok(sent)
}

/// Waits until what is held is to be let go of. Whoever still takes calls then is given back; nobody may come in between
/// the last look whether anything is used and the end, so before that look the calls end.
fn await_end(
    engine: &Arc<Engine>,
    mut listening: Option<Listening>,
    stop: &Stop,
    until: Until<'_>,
) -> Outcome<Option<Listening>> {
    loop {
        let asked = match until {
            Until::Asked { .. } | Until::Done { .. } => Some(stop.wait()),
            Until::Unused => stop.wait_for(LOOKS),
        };
        match (asked, until) {
            (Some(Asked::End), Until::Done { .. }) => {}
            (Some(Asked::End | Asked::Done), _) => return Ok(listening),
            (Some(Asked::PowerFails), Until::Asked { backup: Some(to) } | Until::Done { backup: Some(to) }) => {
                save(engine, to);
            }
            (None, _) if !engine.is_used() && listening.as_ref().is_none_or(|one| one.connections() == 0) => {
                listening.take().map_or(Ok(()), Listening::stop)?;
                if !engine.is_used() {
                    remark!("nothing of {} is mounted or served any more", engine.lock().path().display());
                    return Ok(None);
                }
                listening = Some(Listening::start(engine.lock(), engine.clone())?);
            }
            _ => {}
        }
    }
}

/// Waits until somebody asks this process to end, or the owner does, with what it serves for us.
fn hold_theirs(mut client: Client, stop: &Stop) -> Outcome {
    let look = serde_json::to_value(Request::PoolInfo)?;
    while stop.wait_for(LOOKS) != Some(Asked::End) {
        if client.call(look.clone(), &[], &mut |_| true).is_err() {
            return Err("the pool's owner has ended, and with it what it served for this command".into());
        }
    }
    Ok(())
}

/// Writes a backup because the power fails. Whatever comes of it, serving goes on.
fn save(engine: &Engine, to: &Path) {
    let request = Request::PoolBackup { to: to.into(), now: true };
    match engine.execute(request, Vec::new(), None, &mut |_| true) {
        Ok(_) => remark!("the power fails: backed up to {}", to.display()),
        Err(failure) => remark!("the power fails, and the backup does too: {}", failure.text()),
    }
}

/// Unmounts the file systems, then takes the nodes away.
fn take_all_away(engine: &Engine, stop: &Stop) {
    // Each of them may be waited for.
    take_away(stop, || engine.trees().unmount_unused());
    take_away(stop, || engine.served().detach_all());
}

/// Takes away what `take_unused` does until it leaves nothing. Says who uses it and waits for them; a second signal or
/// [`USERS_PATIENCE`] ends the wait, and what is still open fails from then on.
fn take_away(stop: &Stop, take_unused: impl Fn() -> Vec<String>) {
    let (mut told, until) = (Vec::new(), Instant::now() + USERS_PATIENCE);
    loop {
        let busy = take_unused();
        if busy.is_empty() {
            return;
        }
        if busy != told {
            let most = USERS_PATIENCE.as_secs();
            busy.iter().for_each(|why| remark!("waiting for {most} s at most: {why}; Ctrl-C again to go on without"));
            told = busy;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.wait_for(left.min(LOOKS)) == Some(Asked::End) {
            break;
        }
    }
    remark!("going on without them: what they have open fails from now on");
}

/// Says on standard error which failures `pool` survives.
pub fn tell_survival(pool: &PoolReport) {
    remark!("pool {}: {}", pool.path.display(), pool.medium);
    pool.survives.advice().into_iter().for_each(|advice| remark!("{advice}"));
}

/// Reaches the pool at `path`, asks one thing, and lets go.
pub fn ask<'fd, T: DeserializeOwned>(
    path: &Path,
    request: Request,
    fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
) -> Outcome<T> {
    stop::watch()?;
    let mut reach = Reach::new(path)?;
    let answer = reach.ask(request, fds);
    and_then_cleared(answer, reach.close())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_mode_that_forbids_its_own_user_is_told() {
        let pool = tempfile::NamedTempFile::new().expect("a file");
        let said = |mode| {
            fs::set_permissions(pool.path(), fs::Permissions::from_mode(mode)).expect("its own");
            let error = Error::Io { what: "opening it".into(), source: ErrorKind::PermissionDenied.into() };
            refused(pool.path(), error).text().to_owned()
        };
        for (mode, shown) in [(0o444, "444"), (0o200, "200"), (0o077, "077")] {
            let said = said(mode);
            assert!(said.contains(shown) && said.contains("`chmod u+rw"), "{said}");
        }
        // Something else keeps it out, such as a folder.
        assert!(said(0o600).contains("not yours"));
    }
}
