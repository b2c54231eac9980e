//! How a command reaches a pool: through its owner if it has one, else by becoming that.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_daemon::mounts;
use ferrite_daemon::{disks, filesystems, registry};
use ferrite_owner::access::{self, AwaitOwner, Found};
use ferrite_owner::paths::quoted;
use ferrite_owner::services::PoolRequest;
use ferrite_owner::{Client, Error, PoolAccess, PoolOwner, PoolReport, ServiceRequest, TypedRequest};
use ferrite_pool::{Holder, Lock, LockError, Progress};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bar::Bar;
use crate::host;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::stop::{self, Asked, Stop};
use crate::warm::Warm;

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
    access::find(path, &mut Waiting { path, until: Instant::now() + PATIENCE })
}

/// Waits for an owner until a time, or a signal.
struct Waiting<'a> {
    path: &'a Path,
    until: Instant,
}

impl AwaitOwner for Waiting<'_> {
    type Error = Failure;

    fn claim_failed(&self, error: Error) -> Failure {
        refused(self.path, error)
    }

    fn found_holder(&mut self, holder: &Holder) -> Outcome<bool> {
        let is_dying = holder.is_dying();
        if is_dying {
            make_way(self.path, holder, self.until)?;
        }
        Ok(is_dying)
    }

    fn pause(&mut self, _: &Holder) -> bool {
        let goes_on = Instant::now() < self.until && !stop::is_asked();
        if goes_on {
            std::thread::sleep(PAUSE);
        }
        goes_on
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

/// A pool at hand, through its owner or as its owner.
pub struct Reach(PoolAccess);

impl Reach {
    /// Reaches the pool at `path`.
    pub fn new(path: &Path) -> Outcome<Self> {
        match find(path)? {
            Found::Ours(lock) => Self::own(lock, &MediumArguments::default()),
            Found::Theirs(client, _) => Ok(client.into()),
        }
    }

    /// Reaches the pool at `path`; on the medium that was asked for, if it becomes ours. Says what the pool survives.
    pub fn with(path: &Path, medium: &MediumArguments) -> Outcome<Self> {
        let mut reach = match find(path)? {
            Found::Ours(lock) => Self::own(lock, medium)?,
            Found::Theirs(_, holder) if !medium.is_default() => {
                return Err(Failure::Failed(format!(
                    "{} is {holder}: its guard, pace, wear and trust hold for all of it, so end that first to choose others",
                    path.display()
                )));
            }
            Found::Theirs(client, _) => client.into(),
        };
        tell_survival(&reach.ask(PoolRequest::Info, None)?);
        Ok(reach)
    }

    /// Opens and recovers the pool whose file is locked by `lock`, on the medium that was asked for.
    pub fn own(lock: Lock, medium: &MediumArguments) -> Outcome<Self> {
        let (memory, path) = (medium.map(&lock)?, lock.path().display().to_string());
        let owner = PoolOwner::open(lock, memory, &registry()).map_err(|error| format!("{path}: {error}"))?;
        medium.trust.trust_medium.map_or(Ok(()), |trusted| owner.pool().trust_medium(trusted))?;
        Ok(Self(PoolAccess::Owner(Arc::new(owner))))
    }

    /// Asks for `request`, with `fds` where it needs some. Shows how far it has come; Ctrl-C cancels it.
    pub fn ask<'fd, T: DeserializeOwned>(
        &mut self,
        request: impl TypedRequest,
        fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
    ) -> Outcome<T> {
        self.call(ServiceRequest::of(&request).with_fds(fds), true)
    }

    /// Asks as [`Reach::ask`] does. A signal does not cancel the request: the caller knows what it made or removed.
    pub fn ask_to_end<T: DeserializeOwned>(&mut self, request: impl TypedRequest) -> Outcome<T> {
        self.call(ServiceRequest::of(&request), false)
    }

    fn call<T: DeserializeOwned>(&mut self, request: ServiceRequest<'_>, is_cancelled_by_signals: bool) -> Outcome<T> {
        let bar = Bar::new();
        let watch = &mut |it: Progress| bar.show(&it) || !is_cancelled_by_signals;
        Ok(serde_json::from_value(self.0.call(request, watch)?.value)?)
    }

    /// Asks for `request` that a service describes.
    pub fn call_described(&mut self, request: ServiceRequest<'_>) -> Outcome<Value> {
        self.call(request, true)
    }

    /// Lets go of it in order.
    pub fn close(self) -> Outcome {
        match self.0 {
            PoolAccess::Owner(owner) => close(owner),
            PoolAccess::Client(_) => Ok(()),
        }
    }

    /// Takes the calls of other commands, where the pool is ours.
    pub fn listen(&self) -> Outcome {
        Ok(self.owner().map_or(Ok(()), |owner| owner.listen())?)
    }

    /// Serves what has `begun` for so long; then takes nodes away, stops and closes in order, as it does at once where
    /// the beginning failed.
    pub fn hold(self, begun: Outcome, stop: &Stop, until: Until<'_>) -> Outcome {
        if let Err(failure) = begun {
            self.owner().into_iter().for_each(|owner| take_all_away(owner, stop));
            return and_then_cleared(Err(failure), self.close());
        }
        let owner = match self.0 {
            PoolAccess::Owner(owner) => owner,
            PoolAccess::Client(client) => return hold_theirs(client, stop),
        };
        let warm = Warm::start(&owner);
        await_end(&owner, stop, until)?;
        drop(warm);
        take_all_away(&owner, stop);
        owner.stop_listening()?;
        close(owner)
    }

    /// The owner, where this process is.
    pub fn owner(&self) -> Option<&Arc<PoolOwner>> {
        self.0.owner()
    }

    /// The owner, where this process is and owns the pool at `path`.
    pub fn ours_at(&self, path: &Path) -> Option<&Arc<PoolOwner>> {
        self.owner().filter(|owner| path.canonicalize().is_ok_and(|path| path == owner.lock().path()))
    }

    /// The owner's process, where that is another one.
    pub fn owner_pid(&self) -> Option<u32> {
        self.0.owner_pid()
    }
}

impl From<Client> for Reach {
    fn from(client: Client) -> Self {
        Self(PoolAccess::Client(client))
    }
}

impl From<Arc<PoolOwner>> for Reach {
    fn from(owner: Arc<PoolOwner>) -> Self {
        Self(PoolAccess::Owner(owner))
    }
}

/// Stops serving and closes the pool in order.
fn close(owner: Arc<PoolOwner>) -> Outcome {
    let path = owner.lock().path().to_owned();
    let closed = Arc::into_inner(owner).map_or(Ok(false), PoolOwner::close)?;
    if !closed {
        remark!(
            "{} is not closed in order, for some of it is still in use: who opens it next recovers it",
            path.display()
        );
    }
    Ok(())
}

/// Waits until what is held is to be let go of. Nobody may come in between the last look whether anything is used and the
/// end, so before that look the calls end.
fn await_end(owner: &PoolOwner, stop: &Stop, until: Until<'_>) -> Outcome {
    loop {
        let asked = match until {
            Until::Asked { .. } | Until::Done { .. } => Some(stop.wait()),
            Until::Unused => stop.wait_for(LOOKS),
        };
        match (asked, until) {
            (Some(Asked::End), Until::Done { .. }) => {}
            (Some(Asked::End | Asked::Done), _) => return Ok(()),
            (Some(Asked::PowerFails), Until::Asked { backup: Some(to) } | Until::Done { backup: Some(to) }) => {
                save(owner, to);
            }
            (None, _) if !owner.is_used() && owner.connections() == 0 => {
                owner.stop_listening()?;
                if !owner.is_used() {
                    remark!("nothing of {} is mounted or served any more", owner.lock().path().display());
                    return Ok(());
                }
                owner.listen()?;
            }
            _ => {}
        }
    }
}

/// Waits until somebody asks this process to end, or the owner does, with what it serves for us.
fn hold_theirs(mut client: Client, stop: &Stop) -> Outcome {
    while stop.wait_for(LOOKS) != Some(Asked::End) {
        if client.call(ServiceRequest::of(&PoolRequest::Info), &mut |_| true).is_err() {
            return Err("the pool's owner has ended, and with it what it served for this command".into());
        }
    }
    Ok(())
}

/// Writes a backup because the power fails. Whatever comes of it, serving goes on.
fn save(owner: &PoolOwner, to: &Path) {
    let request = PoolRequest::Backup { to: to.into(), now: true, image: None };
    match owner.call(ServiceRequest::of(&request), &mut |_| true) {
        Ok(_) => remark!("the power fails: backed up to {}", to.display()),
        Err(failure) => remark!("the power fails, and the backup does too: {failure}"),
    }
}

/// Unmounts the file systems, then takes the nodes away.
fn take_all_away(owner: &PoolOwner, stop: &Stop) {
    // Each of them may be waited for.
    take_away(stop, || filesystems(owner).unmount_unused());
    take_away(stop, || disks(owner).detach_all());
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
    request: impl TypedRequest,
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
