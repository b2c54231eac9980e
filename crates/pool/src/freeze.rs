//! Standing still: services and transactions wait while a backup or a check reads the pool as of one moment.
//!
//! - F1. While a [`Frozen`] lives no transaction is open, and every registered service has stopped storing.
//! - F2. Fronts stop first, services after them and transactions last: what one lets finish may need the next.
//! - F3. A service that registers while the pool stands still waits until it does not.
//! - F4. However a freeze ends, by a panic too, everything that was stopped goes on.
//! - F5. Nothing is written meanwhile to a file that a service has in the pool: it would be waited for in vain.
//! - F6. Nobody asks for spare space while services stop or stand still: one that is asked stores, and would wait. While
//!   fronts empty themselves all are there to be asked.
//! - F7. Nothing of a service is left when its last user has dropped it, also while the pool stands still: it is in hand
//!   only while it is told or asked something, and who needs it gone waits that long.
//!
//! Nothing may wait for a transaction with a lock in hand that the holder of a [`Frozen`] takes: the pool's own
//! operations start their transaction before they lock the tag table.

pub(crate) mod frozen_services;

use std::path::Path;
use std::sync::Weak;

use parking_lot::{MutexGuard, RwLockWriteGuard};

use crate::grant::slot::GrantId;
use crate::pool::Pool;
use crate::{Error, Result};

use frozen_services::{Freezers, FrozenServices, add};

pub use frozen_services::Freeze;

/// While it lives the pool stands still (F1). Dropped, everything goes on (F4).
pub struct Frozen<'pool> {
    pool: &'pool Pool,
    // Dropped in this order: transactions go on, then services, then who asks them, then fronts.
    _gate: RwLockWriteGuard<'pool, ()>,
    stopped: StoppedServices<'pool>,
    _asking: RwLockWriteGuard<'pool, ()>,
    _fronts: StoppedServices<'pool>,
    _more_fronts: MutexGuard<'pool, FrozenServices>,
}

/// Services that were stopped, in order.
struct StoppedServices<'pool> {
    all: &'pool Freezers,
    services: FrozenServices,
}

impl<'pool> StoppedServices<'pool> {
    fn stop(all: &'pool Freezers, services: FrozenServices) -> Self {
        let mut stopped = Self { all, services: Vec::new() };
        for service in services {
            if all.tell(&service, |service| service.freeze()).is_some() {
                stopped.services.push(service);
            }
        }
        stopped
    }
}

impl Drop for StoppedServices<'_> {
    fn drop(&mut self) {
        while let Some(service) = self.services.pop() {
            self.all.tell(&service, |service| service.thaw());
        }
    }
}

impl Pool {
    /// Lets `service` stop with the pool, until its last handle is dropped. Called before its first store; waits
    /// while the pool stands still (F3).
    pub fn register_freezer(&self, service: Weak<dyn Freeze>) {
        // A service may be opened to be asked, by who asks.
        let _still = self.freezers().asking.read_recursive();
        add(&mut self.freezers().services.lock(), service);
    }

    /// The same for what holds back what is written to a service, and writes it there before that stops (F2).
    pub fn register_front(&self, front: Weak<dyn Freeze>) {
        add(&mut self.freezers().fronts.lock(), front);
    }

    /// What `work` comes to, tried again where it finds no space, for as long as services have some to spare. The caller
    /// has nothing of any service in hand.
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
                        // Also where nobody had any: somebody may have come to the end of giving it just before.
                        return work();
                    }
                }
                done => return done,
            }
        }
    }

    /// Asks every service but `asking` for what it can spare; whether any gave. Waits while services stop or stand still
    /// (F6). As [`Freeze::spare`].
    pub fn take_spare(&self, asking: Option<&dyn Freeze>) -> bool {
        let _asking = self.freezers().asking.read();
        let mut services = self.freezers().services();
        services.retain(|service| asking.is_none_or(|it| !std::ptr::addr_eq(it, service.as_ptr())));
        let gave = |service: &&_| self.freezers().tell(service, |service| service.spare()) == Some(true);
        let is_any = services.iter().filter(gave).count() > 0;
        let opened = |service| self.freezers().tell(service, |service| service.spare_of_unopened()) == Some(true);
        is_any || services.iter().any(opened)
    }

    /// Refuses a place on a device of this number, whose files a service has: who writes there while the pool stands still
    /// waits for ever (F5).
    pub(crate) fn refuse_own_device(&self, device: u64, place: &Path) -> Result<()> {
        let all = self.freezers();
        let has_it = |service| all.tell(service, |service| service.has_files_on(device)) == Some(true);
        if all.services().iter().any(has_it) {
            return Err(Error::Limit(format!(
                "{} lies in the pool itself, which stands still meanwhile: name a place outside of it",
                place.display()
            )));
        }
        Ok(())
    }

    /// Makes the pool stand still; returns when it does. A thread that holds an open transaction must not call it.
    pub fn freeze(&self) -> Frozen<'_> {
        let all = self.freezers();
        let more_fronts = all.fronts.lock();
        let fronts = StoppedServices::stop(all, more_fronts.clone());
        let asking = all.asking.write();
        let stopped = StoppedServices::stop(all, all.services());
        let gate = all.gate.write();
        Frozen { pool: self, _gate: gate, stopped, _asking: asking, _fronts: fronts, _more_fronts: more_fronts }
    }
}

impl Frozen<'_> {
    /// Grants whose clients stand still too.
    pub(crate) fn stilled(&self) -> Vec<GrantId> {
        let StoppedServices { all, services } = &self.stopped;
        services.iter().filter_map(|service| all.tell(service, |service| service.stilled())).flatten().collect()
    }

    /// The pool that stands still.
    pub fn pool(&self) -> &Pool {
        self.pool
    }
}

#[cfg(test)]
mod tests;
