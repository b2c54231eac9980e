//! The pool of a command: the command asks the owner of the pool or, if no process owns the pool, becomes the owner.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_daemon::mounts;
use ferrite_daemon::{caches, disks, filesystems, registry};
use ferrite_owner::access::{self, AwaitOwner, PoolHolder};
use ferrite_owner::paths::quoted;
use ferrite_owner::services::{BackupOutside, PoolRequest};
use ferrite_owner::{Error, OwnerClient, PoolAccess, PoolMemory, PoolOwner, PoolReport, ServiceRequest, TypedRequest};
use ferrite_pool::{Holder, Lock, LockError, Progress};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bar::Bar;
use crate::host;
use crate::keeper::Keeper;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::prefault::Prefault;
use crate::service_manager::{self, Watchdog};
use crate::size;
use crate::stop::{self, Asked, Stop};

/// The time limit of waiting for a process that holds the pool and does not answer: an owner that has just started, or
/// a command that holds the pool for a moment.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The pause between two attempts to lock or reach the pool.
const PAUSE: Duration = Duration::from_millis(5);
/// The interval of checks whether an owner that serves something for this process is alive, and whether anything that
/// this process serves is in use.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of waiting for the users of mounts and nodes when the owner ends.
const USERS_TIME_LIMIT: Duration = Duration::from_secs(10);

/// The images that a server writes while it holds a pool.
#[derive(Clone, Copy, Default)]
pub struct Images<'a> {
    /// The file for a backup if the power fails.
    pub backup: Option<&'a Path>,
    /// The keeper of the pool.
    pub keeper: Option<&'a RefCell<Keeper>>,
}

/// The event at which a process stops holding a pool.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// Until a signal asks this process to end. The images are written in the meantime.
    Asked { images: Images<'a> },
    /// Until the program that [`Stop::when`] waits for has ended. The program gets the signals.
    Done { images: Images<'a> },
    /// Until a signal, or until nothing of the pool is mounted, attached or served and no other process is connected.
    Unused,
}

impl<'a> Until<'a> {
    fn images(self) -> Images<'a> {
        match self {
            Self::Asked { images } | Self::Done { images } => images,
            Self::Unused => Images::default(),
        }
    }
}

/// Locks the pool at `path`, or connects to its owner. Waits for a command that holds the pool for a moment.
pub fn find(path: &Path) -> Outcome<PoolHolder> {
    look_at(path)?;
    access::find(path, &mut OwnerWait { path, until: Instant::now() + TIME_LIMIT })
}

/// The wait for an owner, until a time or a signal.
struct OwnerWait<'a> {
    path: &'a Path,
    until: Instant,
}

impl AwaitOwner for OwnerWait<'_> {
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

/// Helps a killed owner to end. Returns an error if that takes too long.
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

/// Checks that `path` can be a pool. The error says what to do instead.
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

/// Returns the failure for `error`. If this user may not open the pool, the failure says whether the mode of the file
/// or its user is the reason.
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
        Error::Pool(error) => format!("{name}: {error}").into(),
        _ => error.into(),
    }
}

/// Returns the mode of the file at `path`, if the file belongs to this user.
fn own_mode(path: &Path) -> Option<u32> {
    let (user, _) = host::user().ok()?;
    let found = fs::metadata(path).ok().filter(|found| found.uid() == user)?;
    Some(found.mode() & 0o777)
}

/// The pool of a command, through its owner or as its owner.
pub struct CommandPool(PoolAccess);

impl CommandPool {
    /// Opens or connects to the pool at `path`.
    pub fn new(path: &Path) -> Outcome<Self> {
        match find(path)? {
            PoolHolder::Ours(lock) => Self::own(lock, &MediumArguments::default()),
            PoolHolder::Theirs(client, _) => Ok(client.into()),
        }
    }

    /// Opens the pool at `path` with the options of `medium`, or connects to it. Prints which failures the pool
    /// survives.
    pub fn with(path: &Path, medium: &MediumArguments) -> Outcome<Self> {
        let mut command_pool = match find(path)? {
            PoolHolder::Ours(lock) => Self::own(lock, medium)?,
            PoolHolder::Theirs(_, holder) if !medium.is_default() => {
                return Err(Failure::Failed(format!(
                    "{} is {holder}: its guard, pace, wear and trust hold for all of it, so end that first to choose others",
                    path.display()
                )));
            }
            PoolHolder::Theirs(client, _) => client.into(),
        };
        tell_survival(&command_pool.ask(PoolRequest::Info, None)?);
        Ok(command_pool)
    }

    /// Opens and recovers the pool whose file is locked by `lock`, with the options of `medium`.
    pub fn own(lock: Lock, medium: &MediumArguments) -> Outcome<Self> {
        let memory = medium.map(&lock)?;
        Self::own_mapped(lock, memory, medium)
    }

    /// Opens and recovers the pool whose file is locked by `lock` and mapped by `memory`, as `medium` says.
    pub fn own_mapped(lock: Lock, memory: PoolMemory, medium: &MediumArguments) -> Outcome<Self> {
        let path = lock.path().display().to_string();
        let owner = PoolOwner::open(lock, memory, &registry()).map_err(|error| format!("{path}: {error}"))?;
        medium.trust.trust_medium.map_or(Ok(()), |trusted| owner.pool().trust_medium(trusted))?;
        Ok(Self(PoolAccess::Owner(Arc::new(owner))))
    }

    /// Sends `request` with the descriptors `fds`. Shows its progress; Ctrl-C cancels it.
    pub fn ask<'fd, T: DeserializeOwned>(
        &mut self,
        request: impl TypedRequest,
        fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
    ) -> Outcome<T> {
        self.call(ServiceRequest::of(&request).with_fds(fds), true)
    }

    /// Sends `request` as [`CommandPool::ask`] does, but signals do not cancel it: the caller knows what it made or
    /// removed.
    pub fn ask_to_end<T: DeserializeOwned>(&mut self, request: impl TypedRequest) -> Outcome<T> {
        self.call(ServiceRequest::of(&request), false)
    }

    /// Sends `request`, which changes nothing. Returns `None` if the pool's owner has ended.
    pub fn look<T: DeserializeOwned>(&mut self, request: impl TypedRequest) -> Outcome<Option<T>> {
        match self.answer(ServiceRequest::of(&request), true) {
            Err(Error::Died) => Ok(None),
            answer => Ok(Some(serde_json::from_value(answer?)?)),
        }
    }

    fn call<T: DeserializeOwned>(&mut self, request: ServiceRequest<'_>, is_cancelled_by_signals: bool) -> Outcome<T> {
        Ok(serde_json::from_value(self.answer(request, is_cancelled_by_signals)?)?)
    }

    fn answer(&mut self, request: ServiceRequest<'_>, is_cancelled_by_signals: bool) -> Result<Value, Error> {
        let bar = Bar::new();
        let watch = &mut |it: Progress| bar.show(&it) || !is_cancelled_by_signals;
        Ok(self.0.call(request, watch)?.value)
    }

    /// Sends a `request` that a service describes as data.
    pub fn call_described(&mut self, request: ServiceRequest<'_>) -> Outcome<Value> {
        self.call(request, true)
    }

    /// Closes the pool in order, or the connection to its owner.
    pub fn close(self) -> Outcome {
        match self.0 {
            PoolAccess::Owner(owner) => close(owner),
            PoolAccess::Client(_) => Ok(()),
        }
    }

    /// Removes what other commands mounted and attached in this process, and closes the pool in order.
    pub fn end(self, stop: &Stop) -> Outcome {
        self.owner().into_iter().for_each(|owner| take_all_away(owner, stop));
        self.close()
    }

    /// Answers the requests of other commands from now on, if this process is the owner.
    pub fn listen(&self) -> Outcome {
        Ok(self.owner().map_or(Ok(()), |owner| owner.listen())?)
    }

    /// Serves until `until`; then removes mounts and nodes, stops, and closes the pool in order. Does so at once if
    /// `begun` is an error.
    pub fn hold(self, begun: Outcome, stop: &Stop, until: Until<'_>) -> Outcome {
        if let Err(failure) = begun {
            return and_then_cleared(Err(failure), self.end(stop));
        }
        let owner = match self.0 {
            PoolAccess::Owner(owner) => owner,
            PoolAccess::Client(client) => return hold_theirs(client, stop),
        };
        service_manager::notify(service_manager::READY);
        let watchdog = Watchdog::start(Arc::downgrade(&owner))?;
        let prefault = Prefault::start(&owner);
        await_end(&owner, stop, until)?;
        drop(prefault);
        service_manager::notify(service_manager::STOPPING);
        take_all_away(&owner, stop);
        drop(watchdog);
        remark_dirty(&owner);
        let stopped = owner.stop_listening().map_err(Failure::from);
        let saved = until.images().keeper.map_or(Ok(()), |keeper| {
            let ended = owner.end_services().map_err(Failure::from);
            and_then_cleared(keeper.borrow_mut().save_last(&owner), ended)
        });
        and_then_cleared(and_then_cleared(saved, stopped), close(owner))
    }

    /// Serves until nothing of the pool is in use, if this process is the owner; otherwise returns `begun` at once.
    pub fn hold_while_used(self, begun: Outcome, stop: &Stop) -> Outcome {
        if self.owner().is_some() { self.hold(begun, stop, Until::Unused) } else { begun }
    }

    /// Returns the owner, if this process is the owner.
    pub fn owner(&self) -> Option<&Arc<PoolOwner>> {
        self.0.owner()
    }

    /// Returns the owner, if this process owns the pool at `path`.
    pub fn ours_at(&self, path: &Path) -> Option<&Arc<PoolOwner>> {
        self.owner().filter(|owner| path.canonicalize().is_ok_and(|path| path == owner.lock().path()))
    }

    /// Returns the process of the owner, if it is another process.
    pub fn owner_pid(&self) -> Option<u32> {
        self.0.owner_pid()
    }
}

impl From<OwnerClient> for CommandPool {
    fn from(client: OwnerClient) -> Self {
        Self(PoolAccess::Client(client))
    }
}

impl From<Arc<PoolOwner>> for CommandPool {
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
            "{} is not closed in order, because some of it is still in use: the next owner recovers it",
            path.display()
        );
    }
    Ok(())
}

/// Waits for the end of the holding. The owner stops accepting clients before the last check whether anything is in
/// use, so no client connects between that check and the end.
fn await_end(owner: &PoolOwner, stop: &Stop, until: Until<'_>) -> Outcome {
    loop {
        let asked = match until {
            Until::Asked { images } | Until::Done { images } => match images.keeper.and_then(|it| it.borrow().due()) {
                Some(left) => stop.wait_for(left),
                None => Some(stop.wait()),
            },
            Until::Unused => stop.wait_for(LOOK_INTERVAL),
        };
        match (asked, until) {
            (Some(Asked::End), Until::Done { .. }) => {}
            (Some(Asked::End | Asked::Done), _) => return Ok(()),
            (Some(Asked::PowerFails), _) => {
                let Images { backup, keeper } = until.images();
                backup.into_iter().for_each(|to| save(owner, to));
                keeper.into_iter().for_each(|keeper| keeper.borrow_mut().save_for_power_failure(owner));
            }
            (None, Until::Asked { images } | Until::Done { images }) => {
                let is_ended_by_signals = matches!(until, Until::Asked { .. });
                images.keeper.into_iter().for_each(|keeper| keeper.borrow_mut().save_due(owner, is_ended_by_signals));
            }
            (None, Until::Unused) if !owner.is_used() && owner.connections() == 0 => {
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

/// Waits until a signal asks this process to end, or until the owner and the sockets that it served have ended.
fn hold_theirs(mut client: OwnerClient, stop: &Stop) -> Outcome {
    while stop.wait_for(LOOK_INTERVAL) != Some(Asked::End) {
        if client.call(ServiceRequest::of(&PoolRequest::Info), &mut |_| true).is_err() {
            return Err("the pool's owner has ended, and with it what it served for this command".into());
        }
    }
    Ok(())
}

/// Writes a backup because the power fails. Serving goes on, even if the backup fails.
fn save(owner: &PoolOwner, to: &Path) {
    let request = PoolRequest::Backup { to: to.into(), now: true, image: None, outside: BackupOutside::Leave };
    match owner.call(ServiceRequest::of(&request), &mut |_| true) {
        Ok(_) => remark!("the power fails: backed up to {}", to.display()),
        Err(failure) => remark!("the power fails, and the backup does too: {failure}"),
    }
}

/// Says how much of the caches their disks do not have.
fn remark_dirty(owner: &PoolOwner) {
    let dirty = caches(owner).dirty_bytes();
    if dirty > 0 {
        let (bytes, pool) = (size::show(dirty), quoted(owner.lock().path()));
        remark!(
            "{bytes} are newer in the caches of {pool} than on their disks: the next start goes on with them; `ferrite cache \
             clean` writes them out"
        );
    }
}

/// Unmounts the file systems, then removes the nodes.
fn take_all_away(owner: &PoolOwner, stop: &Stop) {
    // The users of each of them get the full time.
    take_away(stop, || filesystems(owner).unmount_unused());
    take_away(stop, || disks(owner).detach_all());
}

/// Calls `take_unused` until it returns no users. Prints the users and waits for them; a second signal or
/// [`USERS_TIME_LIMIT`] ends the wait, and files that are still open fail from then on.
fn take_away(stop: &Stop, take_unused: impl Fn() -> Vec<String>) {
    let (mut message, until) = (Vec::new(), Instant::now() + USERS_TIME_LIMIT);
    loop {
        let busy = take_unused();
        if busy.is_empty() {
            return;
        }
        if busy != message {
            let most = USERS_TIME_LIMIT.as_secs();
            busy.iter().for_each(|why| remark!("waiting for {most} s at most: {why}; Ctrl-C again to go on without"));
            message = busy;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.wait_for(left.min(LOOK_INTERVAL)) == Some(Asked::End) {
            break;
        }
    }
    remark!("going on without them: what they have open fails from now on");
}

/// Prints on standard error which failures `pool` survives.
pub fn tell_survival(pool: &PoolReport) {
    remark!("pool {}: {}", pool.path.display(), pool.medium);
    pool.survives.advice().into_iter().for_each(|advice| remark!("{advice}"));
}

/// Opens or connects to the pool at `path`, sends `request`, and closes the pool.
pub fn ask<'fd, T: DeserializeOwned>(
    path: &Path,
    request: impl TypedRequest,
    fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
) -> Outcome<T> {
    stop::watch()?;
    let mut command_pool = CommandPool::new(path)?;
    let answer = command_pool.ask(request, fds);
    and_then_cleared(answer, command_pool.close())
}

#[cfg(test)]
mod tests;
