//! Freezing: services and transactions wait while a backup or a check reads the pool as of one moment.
//!
//! A front is a service that buffers writes to another service.
//!
//! - F1. While a [`Frozen`] lives, no transaction is open and no registered service stores.
//! - F2. Fronts stop first, then services, then transactions, because a stopping front may write to a service and a
//!   stopping service may need a transaction.
//! - F3. A service that registers during a freeze waits until the freeze ends.
//! - F4. When a freeze ends, also by a panic, everything that it stopped continues.
//! - F5. During a freeze the pool writes no file that lies in one of its own services: that write would wait for the
//!   freeze to end.
//! - F6. No service is asked for spare space while services stop or are frozen: to release space a service stores, and
//!   would wait. While fronts stop, services can be asked for space of open objects.
//! - F7. When a service's last user has dropped it, nothing of it is left, also during a freeze. The pool holds a
//!   service only during a call of its trait, and a caller that needs the service gone waits for these calls.
//! - F8. A service that stores past transactions while it is not registered has a [`StorePass`]: during its opening, its
//!   creation or its removal. A freeze waits for all passes before anything stops, and a thread waits for the end of the
//!   freeze before it gets its first pass. So no image holds half of an opening.
//!
//! A thread that waits for a transaction must not hold a lock that the holder of a [`Frozen`] acquires. So the pool's
//! own operations start their transaction before they lock the tag table.

pub(crate) mod frozen_services;
pub(crate) mod store_gate;

use std::path::Path;
use std::sync::Weak;

use ferrite_memory::planted;
use parking_lot::{MutexGuard, RwLockWriteGuard};

use crate::grant::slot::GrantId;
use crate::pool::Pool;
use crate::{Error, Result};

use frozen_services::{Freezers, FrozenServices, add};
use store_gate::ClosedGate;

pub use frozen_services::Freeze;
pub use store_gate::StorePass;

/// A frozen pool (F1). Dropping this lets everything continue (F4).
pub struct Frozen<'pool> {
    pool: &'pool Pool,
    // Dropped in this order: transactions continue, then services, requests for spare space, fronts, and openings.
    _gate: RwLockWriteGuard<'pool, ()>,
    stopped: StoppedServices<'pool>,
    _asking: RwLockWriteGuard<'pool, ()>,
    _fronts: StoppedServices<'pool>,
    _more_fronts: MutexGuard<'pool, FrozenServices>,
    _stores: ClosedGate<'pool>,
}

/// Services that were stopped, in the order of stopping.
struct StoppedServices<'pool> {
    all: &'pool Freezers,
    services: FrozenServices,
}

impl<'pool> StoppedServices<'pool> {
    fn stop(all: &'pool Freezers, services: FrozenServices) -> Self {
        let mut stopped = Self { all, services: Vec::new() };
        for service in services {
            if all.call_service(&service, |service| service.freeze()).is_some() {
                stopped.services.push(service);
            }
        }
        stopped
    }
}

impl Drop for StoppedServices<'_> {
    fn drop(&mut self) {
        while let Some(service) = self.services.pop() {
            self.all.call_service(&service, |service| service.thaw());
        }
    }
}

impl Pool {
    /// Registers `service`, which stops at each freeze until its last handle is dropped. A service calls this before
    /// its first store, or while it has a [`StorePass`]. Waits while the pool is frozen (F3).
    pub fn register_freezer(&self, service: Weak<dyn Freeze>) {
        let _pass = self.freezers().stores.pass();
        add(&mut self.freezers().services.lock(), service);
    }

    /// Registers a front, which stops before the service that it writes to (F2).
    pub fn register_front(&self, front: Weak<dyn Freeze>) {
        add(&mut self.freezers().fronts.lock(), front);
    }

    /// Returns the result of `work`. While `work` finds too little space and services release some, it is called again.
    /// The caller must not hold any service.
    ///
    /// # Errors
    /// As `work`.
    pub fn with_spare<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let free_bytes = self.usage().free_bytes;
            match work() {
                Err(error) if error.is_want_of_space() => {
                    self.take_spare(None);
                    if self.usage().free_bytes <= free_bytes {
                        // Another thread may have released space just before.
                        return work();
                    }
                }
                done => return done,
            }
        }
    }

    /// Asks every service except `asking` to release spare space. Returns true if one did. Waits while services stop or
    /// are frozen (F6). See [`Freeze::spare`].
    pub fn take_spare(&self, asking: Option<&dyn Freeze>) -> bool {
        let _asking = self.freezers().asking.read();
        let mut services = self.freezers().services();
        services.retain(|service| asking.is_none_or(|it| !std::ptr::addr_eq(it, service.as_ptr())));
        let gave = |service: &&_| self.freezers().call_service(service, |service| service.spare()) == Some(true);
        let is_any = services.iter().filter(gave).count() > 0;
        // A thread that has frozen the pool waits for a front, which asks: nothing can be opened then (F8).
        let Some(_pass) = self.freezers().stores.try_pass() else { return is_any };
        let opened =
            |service| self.freezers().call_service(service, |service| service.spare_of_unopened()) == Some(true);
        is_any || services.iter().any(opened)
    }

    /// Refuses `place` if its device, with this number, lies in a service of this pool: a write there during a freeze
    /// waits for ever (F5).
    pub(crate) fn refuse_own_device(&self, device: u64, place: &Path) -> Result<()> {
        let all = self.freezers();
        let has_it = |service| all.call_service(service, |service| service.has_files_on(device)) == Some(true);
        if all.services().iter().any(has_it) {
            return Err(Error::Limit(format!(
                "{} lies in the pool itself, which is frozen during the backup: name a place outside of it",
                place.display()
            )));
        }
        Ok(())
    }

    /// Freezes the pool. Returns when everything has stopped. A thread with an open transaction or a [`StorePass`] must
    /// not call this.
    pub fn freeze(&self) -> Frozen<'_> {
        let all = self.freezers();
        let stores = all.stores.close();
        let more_fronts = all.fronts.lock();
        let fronts = StoppedServices::stop(all, more_fronts.clone());
        let asking = all.asking.write();
        let stopped = StoppedServices::stop(all, all.services());
        let gate = all.gate.write();
        Frozen {
            pool: self,
            _gate: gate,
            stopped,
            _asking: asking,
            _fronts: fronts,
            _more_fronts: more_fronts,
            _stores: stores,
        }
    }
}

impl StorePass {
    /// Returns a pass for stores past transactions in a service of `pool` that is not registered (F8). Waits while the pool
    /// is frozen. A thread with a pass may open other services, and must not freeze the pool.
    pub fn of(pool: &Pool) -> Self {
        planted!("freeze: a service that opens has no pass" => return Self::default());
        pool.freezers().stores.pass()
    }
}

impl Frozen<'_> {
    /// Returns true if a freeze of `pool` would wait now: a transaction is open, or a thread has a [`StorePass`].
    pub fn would_wait(pool: &Pool) -> bool {
        pool.freezers().stores.has_passes() || pool.freezers().gate.try_write().is_none()
    }

    /// Returns the grants whose clients are stopped too.
    pub(crate) fn stilled(&self) -> Vec<GrantId> {
        let StoppedServices { all, services } = &self.stopped;
        services.iter().filter_map(|service| all.call_service(service, |service| service.stilled())).flatten().collect()
    }

    /// Returns the frozen pool.
    pub fn pool(&self) -> &Pool {
        self.pool
    }
}

#[cfg(test)]
mod tests;
