//! The guests of an open pool. A guest opens when it is first needed; from then on a thread demotes its pages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_memory::planted;
use ferrite_owner::services::reply;
use ferrite_owner::{ProgressCall, RunningServices, ServicePool, ServiceRegistry, ServiceReply, machine, space_bytes};
use ferrite_pool::grant::Process;
use ferrite_pool::holding::{Lent, TagCounts};
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Caller, Failure, FailureKind, Pool, Progress, Tag};
use parking_lot::Mutex;

use crate::demote::GuestStep;
use crate::guest_requests::{GuestDiskPlace, GuestReport};
use crate::guest_resize::resize;
use crate::guest_share::{GuestShare, ShareRecord, chunks_of};
use crate::guest_spec::{GuestSpec, disk_address, erase_stamp, truth_bytes};
use crate::opening_guests::OpeningGuests;
use crate::pending_change::PendingChange;
use crate::plane::DirectPlane;
use crate::shared_budget::{AskedShare, SharedBudget};
use crate::{GUEST_KIND, GuestCounts, GuestEngine, GuestError, GuestLayout};

/// The time between two steps of a guest that rests.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// The time after which a batch that failed is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Opens a disk by its address.
pub type DiskOpener = dyn Fn(&str) -> Result<Arc<dyn Disk>, String> + Send + Sync;

/// An open guest, and the thread that demotes its pages.
pub(crate) struct OpenGuest {
    pub engine: Arc<GuestEngine>,
    /// The frames that it should have.
    pub asked: Arc<AtomicU64>,
    /// The pool had no space for a frame that it should have.
    pub lacks_space: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OpenGuest {
    fn start(engine: Arc<GuestEngine>) -> Result<Arc<Self>, Failure> {
        let failure = Arc::new(Mutex::new(None));
        let (worked, failed) = (Arc::clone(&engine), Arc::clone(&failure));
        let asked = Arc::new(AtomicU64::new(engine.frames()));
        let lacks_space = Arc::new(AtomicBool::new(false));
        let (to, lacks) = (Arc::clone(&asked), Arc::clone(&lacks_space));
        let (stop, stopped) = channel();
        let work = move || {
            loop {
                let stepped = worked.step().and_then(|step| {
                    let followed = worked.follow(to.load(Ordering::Relaxed), CHUNK / PAGE);
                    let is_full = followed.as_ref().is_err_and(GuestError::is_want_of_space);
                    lacks.store(is_full, Ordering::Relaxed);
                    let followed = if is_full { GuestStep::Rests } else { followed? };
                    Ok(if followed == GuestStep::Rests { step } else { followed })
                });
                let pause = match stepped {
                    Ok(GuestStep::Worked) => Duration::ZERO,
                    Ok(GuestStep::Rests) => PAUSE,
                    Err(_) => RETRY,
                };
                *failed.lock() = stepped.err().map(|error| error.to_string());
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = Builder::new().name("guest".into()).spawn(work);
        let thread = thread.map_err(|error| Failure::failed(format!("starting a thread: {error}")))?;
        Ok(Arc::new(Self { engine, asked, lacks_space, failure, stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for OpenGuest {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// Returns true if a client uses `guest`. Its entry and its thread have the engine too.
pub(crate) fn is_used(guest: &Arc<OpenGuest>) -> bool {
    Arc::strong_count(guest) > 1 || Arc::strong_count(&guest.engine) > 2
}

/// The guests of an open pool.
pub struct OpenGuests {
    pub(crate) pool: Arc<Pool>,
    registry: Arc<ServiceRegistry>,
    running: Weak<RunningServices>,
    boot_id: [u8; 16],
    /// The reason if no other process may use the memory of the pool directly.
    sees_all: Option<&'static str>,
    opener: Arc<DiskOpener>,
    pub(crate) open: Mutex<BTreeMap<String, Arc<OpenGuest>>>,
    pub(crate) opening: OpeningGuests,
    /// This, for threads that open guests.
    this: Weak<Self>,
    pub(crate) shared: Mutex<SharedBudget>,
    /// Held while a thread reads and replaces attributes of guests.
    pub(crate) changing: Mutex<()>,
}

impl OpenGuests {
    pub(crate) fn new(at: &ServicePool<'_>, opener: Arc<DiskOpener>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            pool: Arc::clone(at.pool),
            registry: Arc::clone(at.registry),
            running: at.running.clone(),
            boot_id: at.boot_id,
            sees_all: at.memory.sees_all,
            opener,
            open: Mutex::default(),
            opening: OpeningGuests::default(),
            this: Weak::clone(this),
            shared: Mutex::default(),
            changing: Mutex::default(),
        })
    }

    pub(crate) fn tags(&self) -> Vec<Arc<Tag>> {
        self.pool.tags().into_iter().filter(|tag| tag.kind == GUEST_KIND).collect()
    }

    /// Returns the tag of the guest called `name`.
    pub(crate) fn tag(&self, name: &str) -> Result<Arc<Tag>, Failure> {
        let tag = self.pool.tag(name).map_err(|_| {
            Failure::not_found(format!(
                "there is no guest called {name:?}: see `ferrite guest list`, or `ferrite guest create` it"
            ))
        })?;
        tag.ensure_kind(GUEST_KIND)?;
        Ok(tag)
    }

    fn open_disk(&self, address: &str) -> Result<Arc<dyn Disk>, Failure> {
        (self.opener)(address).map_err(Failure::refused)
    }

    /// Returns the tag of the guest called `name`. Refused while another process has the guest.
    pub(crate) fn own_tag(&self, name: &str) -> Result<Arc<Tag>, Failure> {
        let tag = self.tag(name)?;
        match self.pool.user_of(&tag) {
            Some(pid) => Err(Failure::busy(format!("the guest {name:?} is in use by process {pid}: end that first"))),
            None => Ok(tag),
        }
    }

    /// Opens the disk of the guest called `name`, which no other process may have.
    pub(crate) fn disk_of(&self, name: &str) -> Result<Arc<dyn Disk>, Failure> {
        let tag = self.own_tag(name)?;
        let address = disk_address(&self.pool, &tag).ok_or_else(|| {
            Failure::new(FailureKind::Damaged, format!("the guest {name:?} is damaged: run `ferrite pool check`"))
        })?;
        self.open_disk(&address)
    }

    /// Returns the guest called `name`, and opens it if it is closed. Waits for another thread that opens it, and holds no
    /// lock that other guests need.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<OpenGuest>, Failure> {
        let _alone = self.opening.begin(name);
        if let Some(known) = self.open.lock().get(name) {
            return Ok(Arc::clone(known));
        }
        let disk = self.disk_of(name)?;
        let random = || machine::random() as u16;
        let guest = OpenGuest::start(GuestEngine::open(&self.pool, name, disk, Box::new(DirectPlane), random)?)?;
        self.open.lock().insert(name.into(), Arc::clone(&guest));
        Ok(guest)
    }

    /// Opens the guest called `name` on a thread of its own, unless a thread opens it already.
    pub(crate) fn open_aside(&self, name: &str) {
        let (Some(guests), Some(alone)) = (self.this.upgrade(), self.opening.try_begin(name)) else { return };
        drop(alone);
        let name = name.to_owned();
        // Without a thread the next step tries again.
        let _ = Builder::new().name("guest-opening".into()).spawn(move || {
            if guests.open(&name).is_ok() {
                guests.shared.lock().forget_stuck(&name);
            }
        });
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.tags().iter().map(|tag| tag.name.clone()).collect()
    }

    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.tag(name).ok().map(|tag| tag.size)
    }

    pub(crate) fn list(&self) -> Vec<GuestReport> {
        self.tags().iter().map(|tag| self.report(tag)).collect()
    }

    /// Describes the guest in `tag`. Opens nothing.
    pub(crate) fn report(&self, tag: &Tag) -> GuestReport {
        let open = self.open.lock().get(&tag.name).cloned();
        let share = ShareRecord::read(tag).map_or(GuestShare::fixed(0), |record| record.share);
        GuestReport {
            name: tag.name.clone(),
            size: tag.size,
            min_bytes: u64::from(share.min) * CHUNK,
            max_bytes: u64::from(share.max) * CHUNK,
            weight: share.weight,
            pm_bytes: GuestLayout::read(tag).map_or_else(|_| space_bytes(tag), |layout| layout.data_bytes()),
            disk: disk_address(&self.pool, tag),
            counts: open.as_ref().map(|open| open.engine.counts()).or_else(|| self.lent_counts(tag)),
            why: open.and_then(|open| open.failure.lock().clone()),
            pid: self.pool.user_of(tag),
            pending: PendingChange::read(&tag.attributes).and_then(PendingChange::name).map(String::from),
        }
    }

    /// Describes the guest called `name`, and opens it unless another process has it.
    pub(crate) fn stat(&self, name: &str) -> Result<GuestReport, Failure> {
        let tag = self.tag(name)?;
        if self.pool.user_of(&tag).is_none() {
            self.open(name)?;
        }
        Ok(self.report(&tag))
    }

    /// Lends the guest called `name` to the process of `caller` (VG1).
    pub(crate) fn lend(&self, name: &str, caller: &Caller) -> Result<ServiceReply, Failure> {
        let tag = self.tag(name)?;
        if let Some(why) = self.sees_all {
            return Err(Failure::refused(format!("the guest {name:?} stays with the owner of its pool: {why}")));
        }
        let share = ShareRecord::read(&tag).map(|record| record.share);
        if let Some(share) = share {
            // From here on no other guest gets its memory.
            self.shared.lock().coming.insert(name.into(), share);
        }
        let lent = self.lend_filled(name, share, caller);
        self.shared.lock().coming.remove(name);
        let Lent { loan, memory, words } = lent?;
        Ok(ServiceReply { fds: vec![memory, words], ..reply(&loan)? })
    }

    /// Closes the guest called `name`, gives it the minimum of its `share`, and lends it.
    fn lend_filled(&self, name: &str, share: Option<GuestShare>, caller: &Caller) -> Result<Lent, Failure> {
        if !planted!("guest: the owner keeps the guest that it lends open") {
            self.close(name)?;
        }
        self.complete_size(name)?;
        share.map_or(Ok(()), |share| self.fill_up(name, share))?;
        Ok(self.pool.lend_tag(name, Some(GUEST_KIND), &Process::of(caller, self.boot_id))?)
    }

    /// Makes a guest.
    pub(crate) fn create(
        &self,
        name: String,
        size: u64,
        asked: AskedShare,
        place: &GuestDiskPlace,
    ) -> Result<GuestReport, Failure> {
        ferrite_pool::check_name(&name)?;
        if let Ok(tag) = self.pool.tag(&name) {
            return Err(self.registry.taken(&self.pool, ferrite_pool::Error::Exists(tag.name.clone())));
        }
        if self.running.upgrade().is_some_and(|running| running.disk_names().contains(&name)) {
            let why = format!("the pool has a disk called {name:?}: choose another name for the guest");
            return Err(Failure::new(FailureKind::Exists, why));
        }
        if place.path.as_os_str() != "" {
            ferrite_pool::ensure_no_member(&place.path)?;
        }
        let share = asked.of_new(size)?;
        let identity = machine::random_uuid().map_err(Failure::failed)?;
        let disk = self.open_disk(&place.address)?;
        let (chunks, budget) = self.begin(&name, share)?;
        let spec = GuestSpec {
            name: name.clone(),
            size,
            pm_bytes: u64::from(chunks) * CHUNK,
            share,
            budget,
            address: place.address.clone(),
            identity,
            nonce: machine::random() as u16,
        };
        let created = spec.create(&self.pool, &disk);
        self.shared.lock().end_new(&name);
        created?;
        Ok(self.report(&*self.tag(&name)?))
    }

    /// Writes all newer pages of the guest called `name` to its disk.
    pub(crate) fn flush(&self, name: &str, progress: ProgressCall<'_>) -> Result<GuestReport, Failure> {
        let open = self.open(name)?;
        let mut watch =
            |done, total| progress(Progress { done, total, what: "writing newer pages to the disk".into() });
        if !open.engine.demote_all(&mut watch)? {
            let why = "stopped: some pages are newer than the disk, and nothing is lost; run it again";
            return Err(Failure::new(FailureKind::Cancelled, why));
        }
        Ok(self.report(&*self.tag(name)?))
    }

    /// Flushes and removes the guest called `name`; with `lose`, without its disk.
    pub(crate) fn remove(&self, name: &str, lose: Option<u64>, progress: ProgressCall<'_>) -> Result<(), Failure> {
        self.tag(name)?;
        self.end_uses(name)?;
        match lose {
            None => drop(self.flush(name, progress).map_err(|failure| self.with_loss(name, failure))?),
            Some(bytes) => {
                self.close(name)?;
                let has = self.alone_bytes(name)?;
                if bytes != has {
                    let why = format!("the pool alone has {has} bytes of the guest {name:?}: --lose {has} loses them");
                    return Err(Failure::refused(why));
                }
            }
        }
        self.close(name)?;
        // From here on no process borrows the guest.
        let lease = self.pool.hold(name)?;
        let tag = lease.tag();
        let disk = disk_address(&self.pool, &tag).and_then(|address| (self.opener)(&address).ok());
        self.spread_budget();
        // The stamp of a disk that is not there stays: it names a guest that no pool has.
        if let Some(disk) = disk {
            erase_stamp(&self.pool, &tag, &*disk)?;
        }
        Ok(self.pool.remove_tag(&tag)?)
    }

    /// Closes what other services have of the guest called `name`; refused while a client uses it.
    pub(crate) fn end_uses(&self, name: &str) -> Result<(), Failure> {
        if let Some(running) = self.running.upgrade() {
            running.iter().try_for_each(|service| service.close_disk(name))?;
        }
        self.ensure_unused(name)
    }

    /// Changes the bytes of the pool that hold the pages of the guest called `name`.
    pub(crate) fn resize(&self, name: &str, pm_bytes: u64, progress: ProgressCall<'_>) -> Result<GuestReport, Failure> {
        let tag = self.tag(name)?;
        let (layout, chunks) = (GuestLayout::read(&tag)?, chunks_of(pm_bytes)?);
        let ensure = |tag: &Tag| {
            let is_more = ShareRecord::read(tag).is_none_or(|record| chunks > record.share.min);
            if is_more { self.ensure_minimum(name, chunks) } else { Ok(()) }
        };
        ensure(&tag)?;
        self.end_uses(name)?;
        if pm_bytes < layout.data_bytes() {
            self.flush(name, progress)?;
        }
        self.close(name)?;
        let changing = self.changing.lock();
        ensure(&*self.tag(name)?)?;
        resize(&self.pool, name, pm_bytes)?;
        drop(changing);
        Ok(self.report(&*self.tag(name)?))
    }

    /// Returns the bytes that the pool alone has of a closed guest; of a damaged one, all that it may have.
    fn alone_bytes(&self, name: &str) -> Result<u64, Failure> {
        match truth_bytes(&self.pool, name) {
            Err(GuestError::Damaged(_)) => Ok(space_bytes(&*self.tag(name)?)),
            other => Ok(other?),
        }
    }

    /// Adds to `failure` what a removal without the disk would lose.
    fn with_loss(&self, name: &str, failure: Failure) -> Failure {
        if failure.kind == FailureKind::Cancelled {
            return failure;
        }
        let Ok(bytes) = self.close(name).and_then(|()| self.alone_bytes(name)) else { return failure };
        let message = format!(
            "{}; --lose {bytes} removes the guest without its disk, and loses as many bytes that only the pool has",
            failure.message
        );
        Failure { message, ..failure }
    }

    /// Refuses while a client uses the guest called `name`.
    fn ensure_unused(&self, name: &str) -> Result<(), Failure> {
        let open = self.open.lock();
        match open.get(name).is_some_and(is_used) {
            true => Err(Failure::busy(format!("the guest {name:?} is in use: end that first"))),
            false => Ok(()),
        }
    }

    /// Closes the guest called `name`; refused while a client uses it.
    pub(crate) fn close(&self, name: &str) -> Result<(), Failure> {
        self.ensure_unused(name)?;
        let known = self.open.lock().remove(name);
        // Ends its thread, outside of the lock.
        drop(known);
        Ok(())
    }

    /// Ends the background work of all guests. Newer pages stay in the pool.
    pub(crate) fn end_all(&self) {
        self.open.lock().clear();
    }

    /// Returns the counts of each open guest and of each guest in another process, with its name.
    pub(crate) fn all_counts(&self) -> Vec<(String, GuestCounts)> {
        let engine = |(name, open): (&String, &Arc<OpenGuest>)| (name.clone(), Arc::clone(&open.engine));
        let open: Vec<_> = self.open.lock().iter().map(engine).collect();
        let open = open.into_iter().map(|(name, engine)| (name, engine.counts()));
        let tags = self.tags();
        let lent = tags.iter().filter_map(|tag| Some((tag.name.clone(), self.lent_counts(tag)?)));
        open.chain(lent).collect()
    }

    /// Returns the counts of the guest in `tag`, if another process has it.
    pub(crate) fn lent_counts(&self, tag: &Tag) -> Option<GuestCounts> {
        TagCounts::of(&self.pool).figures(tag).map(GuestCounts::of_figures)
    }
}
