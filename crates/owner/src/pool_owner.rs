//! The process that owns a pool: it opens the pool, runs the services that its program links, and answers its clients.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_pool::{Caller, Failure, FailureKind, Lock, PidFd, Pool, Recovery};
use parking_lot::Mutex;
use serde_json::Value;

use crate::client::ServiceRequest;
use crate::lease::end_orphans;
use crate::pool_metrics::{PoolHistory, pool_metrics};
use crate::registry::{RunningServices, ServiceRegistry, StartedService};
use crate::service::ServicePool;
use crate::services::{self, LEASE, POOL, TAG};
use crate::steps::StepThread;
use crate::{
    EndedConnection, Handler, KeptReport, ListeningSocket, Metric, PoolMemory, PoolReport, ProgressCall, Result,
    ServiceCall, ServiceReply, machine,
};

/// The number of the connection by which the owner's own process calls its services.
pub const OWN_CONNECTION: u64 = 0;

/// An open pool that this process owns.
pub struct PoolOwner {
    core: Arc<OwnerCore>,
    lock: Lock,
    listening: Mutex<Option<ListeningSocket>>,
    steps: Option<StepThread>,
    /// Servers beside the control socket, which answer by the owner.
    servers: Mutex<Vec<Box<dyn Any + Send>>>,
}

/// The part of an owner that its clients' threads share.
pub(crate) struct OwnerCore {
    pool: Arc<Pool>,
    path: PathBuf,
    memory: PoolMemory,
    boot_id: [u8; 16],
    registry: Arc<ServiceRegistry>,
    running: Arc<RunningServices>,
    history: PoolHistory,
    kept: Mutex<Option<KeptReport>>,
}

/// A pool whose owner has ended.
pub struct EndedOwner {
    /// The pool; `None` if something in this process still uses it, so that it is left as after a crash.
    pub pool: Option<Pool>,
    /// The lock on the pool's file.
    pub lock: Lock,
    /// The first failure of a service to end.
    pub ended: std::result::Result<(), Failure>,
}

impl std::fmt::Debug for PoolOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolOwner").field("path", &self.core.path).finish_non_exhaustive()
    }
}

impl PoolOwner {
    /// Opens and recovers the pool whose file `lock` holds, on `memory`, and starts the services of `registry`. No client
    /// is answered before [`PoolOwner::listen`].
    ///
    /// # Errors
    /// [`crate::Error::Pool`] if the pool cannot be opened, [`crate::Error::Failed`] if a service cannot start.
    pub fn open(lock: Lock, memory: PoolMemory, registry: &Arc<ServiceRegistry>) -> Result<Self> {
        let boot_id = machine::boot_id();
        let boot_id = boot_id.map_err(|error| crate::Error::io("asking for the boot of the machine", error))?;
        Self::open_in_boot(lock, memory, registry, boot_id)
    }

    /// As [`PoolOwner::open`], in the boot `boot_id` of the machine.
    ///
    /// # Errors
    /// As [`PoolOwner::open`].
    pub fn open_in_boot(
        lock: Lock,
        memory: PoolMemory,
        registry: &Arc<ServiceRegistry>,
        boot_id: [u8; 16],
    ) -> Result<Self> {
        let (pool, history) = PoolHistory::begin(|| Pool::open(Arc::clone(&memory.memory), boot_id))?;
        end_orphans(&pool, lock.path())?;
        let (pool, running) = (Arc::new(pool), Arc::new(RunningServices::default()));
        let mut all = Vec::new();
        for service in registry.services() {
            let (pool, lock, memory, running) = (&pool, &lock, &memory, Arc::downgrade(&running));
            let started = service.start(&ServicePool { pool, lock, memory, boot_id, registry, running })?;
            let names = [&[service.name()], service.protocols()].concat();
            all.push(StartedService { kind: service.kind(), names, service: started });
        }
        running.set(all);
        let steps = StepThread::start(&running);
        let (path, registry) = (lock.path().to_owned(), Arc::clone(registry));
        let core =
            Arc::new(OwnerCore { pool, path, memory, boot_id, registry, running, history, kept: Mutex::default() });
        Ok(Self { core, lock, listening: Mutex::default(), steps, servers: Mutex::default() })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.core.pool
    }

    /// The lock on the pool's file.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// The memory that the pool is opened on.
    pub fn memory(&self) -> &PoolMemory {
        &self.core.memory
    }

    /// What opening found.
    pub fn recovery(&self) -> Recovery {
        self.core.history.recovery()
    }

    /// The services that run in the pool.
    pub fn running(&self) -> &Arc<RunningServices> {
        &self.core.running
    }

    /// Notes the state of the image that keeps the pool, for reports: at the start, and after each save.
    pub fn note_kept(&self, kept: KeptReport) {
        if self.core.kept.lock().replace(kept).is_some() {
            self.core.history.note_image();
        }
    }

    /// Describes the pool.
    pub fn report(&self) -> PoolReport {
        services::pool_report(&self.core)
    }

    /// Returns what the pool and its services count.
    pub fn metrics(&self) -> Vec<Metric> {
        self.core.metrics()
    }

    /// Answers clients on the pool's control socket until [`PoolOwner::stop_listening`].
    ///
    /// # Errors
    /// [`crate::Error::Io`] if no socket can be made.
    pub fn listen(&self) -> Result<()> {
        let mut listening = self.listening.lock();
        if listening.is_none() {
            *listening = Some(ListeningSocket::start(&self.lock, Arc::clone(&self.core) as Arc<dyn Handler>)?);
        }
        Ok(())
    }

    /// Keeps a server that answers by this owner, such as by [`PoolOwner::metrics_source`], until
    /// [`PoolOwner::stop_listening`]. A drop of the server must end its last answer.
    pub fn keep_server(&self, server: Box<dyn Any + Send>) {
        self.servers.lock().push(server);
    }

    /// Returns a function that returns [`PoolOwner::metrics`], or `None` after the owner's end.
    pub fn metrics_source(&self) -> impl Fn() -> Option<Vec<Metric>> + Send + Sync + use<> {
        let core = Arc::downgrade(&self.core);
        move || Some(core.upgrade()?.metrics())
    }

    /// Removes the control socket and drops the servers beside it, and returns when the last call has ended.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if the socket could not be removed.
    pub fn stop_listening(&self) -> Result<()> {
        self.servers.lock().clear();
        let listening = self.listening.lock().take();
        listening.map_or(Ok(()), ListeningSocket::stop)
    }

    /// Returns the number of clients' connections.
    pub fn connections(&self) -> usize {
        self.listening.lock().as_ref().map_or(0, ListeningSocket::connections)
    }

    /// Returns true if anything of the pool is mounted, attached or served.
    pub fn is_used(&self) -> bool {
        self.core.running.iter().any(|service| service.is_used())
    }

    /// Returns true if a tag of the pool is held in this process: each holding keeps the lock.
    pub fn is_held(&self) -> bool {
        let listening = usize::from(self.listening.lock().is_some());
        self.lock.keepers() > 1 + listening
    }

    /// Does what `request` asks, in this process.
    ///
    /// # Errors
    /// As the service says.
    pub fn call(
        &self,
        request: ServiceRequest<'_>,
        progress: ProgressCall<'_>,
    ) -> std::result::Result<ServiceReply, Failure> {
        let ServiceRequest { service, request, fds, view: _ } = request;
        let fds: std::io::Result<_> = fds.into_iter().map(|fd| fd.try_clone_to_owned()).collect();
        let (fds, caller) = (fds.map_err(Failure::failed)?, this_process()?);
        self.core.dispatch(ServiceCall { caller: &caller, service, request, fds, view: None, progress })
    }

    /// Ends the services. From then on this process changes nothing outside of the pool. [`PoolOwner::end`] repeats it.
    ///
    /// # Errors
    /// The first failure. All services have ended.
    pub fn end_services(&self) -> std::result::Result<(), Failure> {
        self.core.running.end()
    }

    /// Ends the owner: no client is answered any more, and the services have ended.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if the control socket could not be removed; the pool is left as after a crash then.
    pub fn end(self) -> Result<EndedOwner> {
        self.stop_listening()?;
        let Self { core, lock, listening, steps, servers, .. } = self;
        drop((listening, steps, servers));
        let ended = core.running.end();
        // The sessions' threads, which had the other references, have ended.
        let pool = Arc::into_inner(core).and_then(|core| {
            let OwnerCore { pool, running, .. } = core;
            drop(running);
            Arc::into_inner(pool)
        });
        Ok(EndedOwner { pool, lock, ended })
    }

    /// Ends the owner and closes the pool in order, if nothing in this process uses it. Returns true if it was closed.
    ///
    /// # Errors
    /// As [`PoolOwner::end`]; [`crate::Error::Failed`] as the services say; [`crate::Error::Pool`] as [`Pool::close`].
    pub fn close(self) -> Result<bool> {
        let EndedOwner { pool, lock: _lock, ended } = self.end()?;
        let Some(pool) = pool else { return Ok(ended.map(|()| false)?) };
        let closed = pool.close();
        ended?;
        closed?;
        Ok(true)
    }
}

/// Describes this process as a caller.
fn this_process() -> std::result::Result<Caller, Failure> {
    let pid = std::process::id();
    let process = PidFd::open(pid).map_err(|error| Failure::failed(format!("opening this process: {error}")))?;
    Ok(Caller { pid, uid: ferrite_memory::process::effective_user(), process, connection: OWN_CONNECTION })
}

impl OwnerCore {
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn memory(&self) -> &PoolMemory {
        &self.memory
    }

    pub fn kept(&self) -> Option<KeptReport> {
        self.kept.lock().clone()
    }

    pub fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    pub fn registry(&self) -> &Arc<ServiceRegistry> {
        &self.registry
    }

    pub fn running(&self) -> &Arc<RunningServices> {
        &self.running
    }

    pub fn history(&self) -> &PoolHistory {
        &self.history
    }

    /// Returns what the pool and its services count.
    pub fn metrics(&self) -> Vec<Metric> {
        let of_services = self.running.iter().flat_map(|service| service.metrics());
        pool_metrics(&self.pool, &self.registry, &self.history).into_iter().chain(of_services).collect()
    }

    /// Returns the end of a message about a service that this process does not link.
    pub fn elsewhere(&self) -> String {
        let (pid, path) = (std::process::id(), self.path.display());
        let owner = ferrite_pool::Holder::seen(&self.path).and_then(|holder| holder.command);
        let command = owner.map_or_else(String::new, |command| format!(" ({command})"));
        format!(
            "the owner of {path}, process {pid}{command}, does not serve: `ferrite up` does, so end that process first \
             and start `ferrite up`"
        )
    }

    /// Does what `call` asks, by the service that it names.
    fn dispatch(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        match call.service {
            POOL => services::answer_pool(self, call),
            TAG => services::answer_tag(self, call),
            LEASE => services::answer_lease(&self.pool, self.boot_id, call),
            name => match self.running.named(name) {
                Some(service) => service.call(call),
                None => Err(Failure::new(
                    FailureKind::NotServed,
                    format!("this needs the service {name:?}, which {}", self.elsewhere()),
                )),
            },
        }
    }
}

impl Handler for OwnerCore {
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        self.dispatch(call)
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        self.running.iter().for_each(|service| service.connection_ended(ended));
        // Grants that cannot end now are found by the next reap, and at the next opening.
        let _ = ended.reap(&self.pool);
    }
}

/// Reads the answer of a call as `T`.
///
/// # Errors
/// [`FailureKind::Failed`] if the owner's program and this one mean different things.
pub(crate) fn read_answer<T: serde::de::DeserializeOwned>(value: Value) -> std::result::Result<T, Failure> {
    serde_json::from_value(value)
        .map_err(|error| Failure::failed(format!("the pool's owner answers what this program cannot use: {error}")))
}
