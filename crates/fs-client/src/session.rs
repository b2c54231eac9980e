//! A client's way to a file system that another process serves.

use std::cell::Cell;
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrite_memory::{Foreign, Guard, MapOptions, Mapped, planted, process};
use ferrite_owner::{Error as OwnerError, OwnerClient, ServiceRequest};
use ferrite_pool::grant::GrantId;
use ferrite_pool::{Error as PoolError, Failure};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::lease::FileLease;
use super::left_sessions;
use super::left_sessions::HeldSession;
use super::left_sessions::LeftSession;
use super::thread_slot;
use ferrite_fs::format::attr::FsClock;
use ferrite_fs::format::attr::Ino;
use ferrite_fs::share::layout::request::ClientRequest;
use ferrite_fs::share::layout::request::LeaseAccess;
use ferrite_fs::share::layout::request::LeaseAnswer;
use ferrite_fs::share::layout::request::SHARE;
use ferrite_fs::share::layout::request::SessionGrant;
use ferrite_fs::share::layout::shared_state::LAYOUT;
use ferrite_fs::share::layout::shared_state::SharedState;
use ferrite_fs::share::layout::shared_state::ensure_alike;
use ferrite_pool::Result;

/// Runs a function so that no signal handler interrupts it, or does not run it. The function acquires locks or memory,
/// or calls the owner, within a read or write that a handler may interrupt.
pub type Quiet = fn(&mut dyn FnMut());

/// This process's way to one file system of a pool that another process serves.
pub struct FsSession {
    name: String,
    id: GrantId,
    number: usize,
    pub(crate) writable: bool,
    device: Option<u64>,
    pub(crate) memory: Mapped,
    shared_state: Arc<SharedState>,
    pub(crate) foreign: Foreign,
    pub(crate) clock: FsClock,
    quiet: Quiet,
    /// The connection, and the right to use the transfer area.
    client: Mutex<OwnerClient>,
    pub(crate) transfer_area: Option<u32>,
    /// Hangs up when the owner ends. It gives no other access.
    notice: OwnedFd,
    /// Whose it is. A child that was forked has it too, and none of its words.
    process: u32,
    /// The session is over, or belongs to another process, which forked this one.
    is_void: AtomicBool,
    /// The last, with what follows: when it is dropped nothing is mapped any more.
    left: LeftSession,
    _held: HeldSession,
}

impl std::fmt::Debug for FsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

/// This thread is asking, until it is dropped.
struct AskTurn(PhantomData<*const ()>);

thread_local!(static ASKS: Cell<bool> = const { Cell::new(false) });

impl AskTurn {
    fn take() -> Option<Self> {
        // Created only after success, because dropping one ends the turn.
        if ASKS.replace(true) { None } else { Some(Self(PhantomData)) }
    }
}

impl Drop for AskTurn {
    fn drop(&mut self) {
        ASKS.set(false);
    }
}

fn failed(why: impl std::fmt::Display) -> PoolError {
    PoolError::Owner(Failure::failed(why))
}

fn ask<T: DeserializeOwned>(client: &mut OwnerClient, request: &ClientRequest) -> Result<(T, Vec<OwnedFd>)> {
    let asked = client.call(ServiceRequest::new(SHARE, request), &mut |_| true);
    let (value, fds) = asked.map_err(|error| match error {
        OwnerError::Failed(failure) => PoolError::Owner(failure),
        other => failed(other),
    })?;
    Ok((serde_json::from_value(value).map_err(failed)?, fds))
}

/// Refuses the file of a pool that another user could shorten: that would kill this process, which maps the file
/// (FG12).
fn ensure_trusted(memory: &File, pool: &Path) -> Result<()> {
    let file = memory.metadata().map_err(failed)?;
    if process::is_own(&file) {
        return Ok(());
    }
    Err(failed(format!(
        "{} belongs to user {} with mode {:03o}: it must be root's or the program's user's, and writable by no other user, or \
         another user could end the program by shortening it",
        pool.display(),
        file.uid(),
        file.mode() & 0o777
    )))
}

/// Makes all data durable that was written to one mount: the file system called `name`, with the device number
/// `device`, in the pool whose file is at `pool`. The owner must answer within `greeting`, and must not be silent for
/// longer than `silence`.
///
/// # Errors
/// Fails if the data may not be durable: the pool has no owner, the owner does not answer or refuses this user, or it
/// serves another mount.
pub fn flush_mount(pool: &Path, name: &str, device: u64, greeting: Duration, silence: Duration) -> Result<()> {
    let mut client = OwnerClient::connect_within(pool, greeting).map_err(failed)?;
    client.give_up_after(silence);
    ask::<Option<bool>>(&mut client, &ClientRequest::DirectFlush { name: name.into(), device: Some(device) }).map(drop)
}

impl FsSession {
    /// Opens a session on the file system called `name` in the pool whose file is at `pool`. `clock` returns the time
    /// of changes.
    ///
    /// # Errors
    /// Fails with the reason: the file system has no owner, is not mounted, is mounted without access for clients, or
    /// lies on a disk.
    pub fn connect(pool: &Path, name: &str, clock: FsClock) -> Result<Arc<Self>> {
        Self::begin(pool, name, clock, |work| work(), || None)
    }

    /// Like [`FsSession::connect`], for a process whose signal handlers use the same session. This copy of the code
    /// must hold all sessions of the process: the owner ends sessions with earlier owners that it does not hold.
    ///
    /// # Errors
    /// Fails as [`FsSession::connect`].
    pub fn connect_quiet(pool: &Path, name: &str, clock: FsClock, quiet: Quiet) -> Result<Arc<Self>> {
        Self::begin(pool, name, clock, quiet, || Some(left_sessions::held()))
    }

    fn begin(
        pool: &Path,
        name: &str,
        clock: FsClock,
        quiet: Quiet,
        held: impl FnOnce() -> Option<Vec<GrantId>>,
    ) -> Result<Arc<Self>> {
        let mut client = OwnerClient::connect(pool).map_err(failed)?;
        let request = ClientRequest::DirectOpen { name: name.into(), layout: LAYOUT, held: held() };
        let (opened, fds) = ask::<SessionGrant>(&mut client, &request)?;
        let held = HeldSession::of(opened.session).ok_or_else(|| failed("this process has too many sessions"))?;
        ensure_alike(opened.layout)?;
        let strange = || failed("the pool's owner answers what this program cannot use");
        let [memory, shared_state, notice] = <[OwnedFd; 3]>::try_from(fds).map_err(|_| strange())?;
        let memory = File::from(memory);
        ensure_trusted(&memory, pool)?;
        let guard = if opened.writable { Guard::best() } else { Guard::None };
        let options = MapOptions {
            guard,
            read_only: !opened.writable,
            name: pool.display().to_string(),
            ..MapOptions::default()
        };
        let memory = Mapped::map(memory, &options)?;
        let shared_state = Some(SharedState::of(shared_state)?).filter(|_| opened.offset == 0).ok_or_else(strange)?;
        memory.keep_from_children();
        shared_state.keep_from_children();
        let (shared_state, process) = (Arc::new(shared_state), std::process::id());
        let left = LeftSession {
            pool: pool.into(),
            name: name.into(),
            grant: opened.session,
            _board: Arc::clone(&shared_state),
            process,
            is_to_report: false,
        };
        let session = Arc::new(Self {
            name: name.into(),
            id: opened.session,
            number: thread_slot::number(),
            writable: opened.writable,
            device: opened.device,
            memory,
            shared_state,
            foreign: Foreign::register(),
            clock,
            quiet,
            client: Mutex::new(client),
            transfer_area: opened.transfer_area,
            notice,
            process,
            is_void: AtomicBool::new(false),
            left,
            _held: held,
        });
        session.report_left();
        Ok(session)
    }

    /// Tells the owner which sessions of owners before it this process has let go of.
    fn report_left(&self) {
        for session in left_sessions::taken(&self.left.pool, &self.name) {
            // After a failure the owner learns of it when this process connects again, or ends.
            let _ = self.ask::<Option<bool>>(&ClientRequest::DirectLetGo { name: self.name.clone(), session });
        }
    }

    /// A lease on the regular file `ino`, as the mount shows it (`st_ino`). A call to the owner, some ten microseconds.
    ///
    /// # Errors
    /// Why not: others have what excludes it, or the file is none that is served directly.
    pub fn lease(self: &Arc<Self>, ino: Ino, access: LeaseAccess) -> Result<FileLease> {
        self.lease_with(ino, access, 0, &|| ())
    }

    /// Acquires a lease on a file of a mount, with room for `ahead_bytes` behind its end. If the kernel may not know
    /// the end of the file, or may be appending, `look` waits for that and has the kernel ask for the size first (FG8,
    /// FG11).
    ///
    /// # Errors
    /// Fails as [`FsSession::lease`].
    pub fn lease_with(
        self: &Arc<Self>,
        ino: Ino,
        access: LeaseAccess,
        ahead_bytes: u64,
        look: &dyn Fn(),
    ) -> Result<FileLease> {
        if self.is_over() {
            return Err(failed("the pool's owner has ended"));
        }
        if access > LeaseAccess::Read && !self.writable {
            return Err(failed("the file system is open to be read only"));
        }
        self.report_left();
        let wish = |seen_ends| {
            let (name, session, ino) = (self.name.clone(), self.id, ino.0);
            self.ask::<LeaseAnswer>(&ClientRequest::DirectLease { name, session, ino, access, ahead_bytes, seen_ends })
        };
        let answer = match wish(None)? {
            LeaseAnswer::Behind { ends } => {
                look();
                wish(Some(ends))?
            }
            leased @ LeaseAnswer::Granted(_) => leased,
        };
        let LeaseAnswer::Granted(leased) = answer else { return Err(failed("others append to the file")) };
        FileLease::new(Arc::clone(self), ino, leased)
            .ok_or_else(|| failed("the pool's owner answers with a strange lease"))
    }

    /// Returns the device number of the files of the mount that the owner serves, if it serves one. A path does not
    /// identify a mount: another pool may be mounted there later, or the same pool with other files under the same
    /// numbers.
    pub fn device(&self) -> Option<u64> {
        self.device
    }

    /// Asks the owner, and waits for its answer.
    fn ask<T: DeserializeOwned>(&self, request: &ClientRequest) -> Result<T> {
        // The lock may be held by code that a signal interrupted, so this does not wait for it.
        let Some(_turn) = AskTurn::take() else { return Err(failed("this thread is asking already")) };
        ask(&mut self.client.lock(), request).map(|(answer, _)| answer)
    }

    /// Returns true if the owner is gone or the session was revoked. Its leases return `None` from then on.
    #[inline]
    pub fn is_over(&self) -> bool {
        if self.is_void() {
            return true;
        }
        let is_over = !self.shared_state.is_owner_alive();
        if is_over {
            self.is_void.store(true, Ordering::Release);
        }
        is_over
    }

    /// Call it in a forked child, where the session's resources are the parent's. Only a store.
    pub fn forget_in_child(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    /// Ends the session at once for every thread: on return it has nothing of the pool mapped or open. `wait` gives
    /// threads within a copy time to finish, because the owner sees their pins until then. A thread that does not
    /// finish counts as stopped for as long as this process lives.
    pub fn withdraw(&self, wait: impl FnOnce()) {
        self.is_void.store(true, Ordering::SeqCst);
        wait();
        // After a failure the owner ends it with the connection.
        let _ = self.ask_to_close();
        self.client.lock().hang_up();
        self.shared_state.withdraw(self.notice.as_fd());
        planted!("fs: kept memory" => return);
        self.memory.withdraw(self.notice.as_fd());
    }

    #[inline]
    pub(crate) fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }

    /// Returns true if its words are mapped in this process. A forked child calls it too.
    pub(crate) fn is_here(&self) -> bool {
        !self.is_void() && self.process == std::process::id()
    }

    #[inline]
    pub(crate) fn shared_state(&self) -> &Arc<SharedState> {
        &self.shared_state
    }

    /// `work` by [`Quiet`].
    #[cold]
    pub(crate) fn quietly<T>(&self, work: impl FnOnce() -> Option<T>) -> Option<T> {
        let (mut work, mut done) = (Some(work), None);
        (self.quiet)(&mut || done = work.take().and_then(|work| work()));
        done
    }

    pub(crate) fn id(&self) -> GrantId {
        self.id
    }

    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Asks the owner for pages behind the end of `ino`, for `bytes` bytes. Returns `None` if the owner refuses.
    pub(crate) fn ask_ahead(&self, ino: Ino, bytes: u64) -> Option<()> {
        if self.is_over() {
            return None;
        }
        self.quietly(|| {
            let request = ClientRequest::DirectAhead { name: self.name.clone(), session: self.id, ino: ino.0, bytes };
            self.ask::<Option<bool>>(&request).ok().map(drop)
        })
    }

    /// Has the owner read bytes of `ino` from byte `at` on, and copies them to `into`. Returns how many: no more than a
    /// transfer area has. Returns `None` if the session has no area, or the owner refuses. The bytes count only if a
    /// lease lets the session read afterwards (FG10).
    pub(crate) fn read_by_owner(&self, ino: Ino, at: u64, into: &mut [u8]) -> Option<usize> {
        let (name, session, ino, bytes) = (self.name.clone(), self.id, ino.0, into.len() as u64);
        self.with_transfer_area(|area, client| {
            let request = ClientRequest::DirectRead { name, session, ino, at, bytes };
            let (read, _) = ask::<usize>(client, &request).ok()?;
            self.shared_state.load_transfer(area, into.get_mut(..read)?)?;
            Some(read)
        })
    }

    /// Has the owner write `from` over the bytes of `ino` from byte `at` on (FG13). Returns `None` if the session has no
    /// transfer area or a smaller one, or the owner refuses.
    pub(crate) fn overwrite_by_owner(&self, ino: Ino, at: u64, from: &[u8]) -> Option<()> {
        let (name, session, ino, bytes) = (self.name.clone(), self.id, ino.0, from.len() as u64);
        self.with_transfer_area(|area, client| {
            self.shared_state.store_transfer(area, from)?;
            let request = ClientRequest::DirectOverwrite { name, session, ino, at, bytes };
            ask::<Option<bool>>(client, &request).ok().map(drop)
        })
    }

    /// Runs `work` with the session's transfer area, which no other thread uses then.
    fn with_transfer_area<T>(&self, work: impl FnOnce(usize, &mut OwnerClient) -> Option<T>) -> Option<T> {
        let area = self.transfer_area.filter(|_| !self.is_over())? as usize;
        self.quietly(|| {
            // This thread may be asking already, interrupted by a signal: then the area is in use.
            let _turn = AskTurn::take()?;
            work(area, &mut self.client.lock())
        })
    }

    /// Asks that `ino` have `size` bytes; `None` where that is not for us.
    pub(crate) fn resize(&self, ino: Ino, size: u64) -> Option<()> {
        if self.is_over() {
            return None;
        }
        let request = ClientRequest::DirectResize { name: self.name.clone(), session: self.id, ino: ino.0, size };
        self.ask::<Option<bool>>(&request).ok().map(drop)
    }

    fn ask_to_close(&self) -> Result<Option<bool>> {
        self.ask(&ClientRequest::DirectClose { name: self.name.clone(), session: self.id })
    }

    /// Gives the lease on `ino` back.
    pub(crate) fn return_lease(&self, ino: Ino) {
        if !self.is_over() {
            let request = ClientRequest::DirectReturn { name: self.name.clone(), session: self.id, ino: ino.0 };
            // After a failure the owner revokes it with the connection.
            let _ = self.ask::<Option<bool>>(&request);
        }
    }
}

/// Ends it: the owner knows on return.
impl Drop for FsSession {
    fn drop(&mut self) {
        // After a failure the owner ends it with the connection, or has ended.
        self.left.is_to_report = self.is_over() || self.ask_to_close().is_err();
    }
}

#[cfg(test)]
mod tests;
