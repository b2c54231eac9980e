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

use std::path::Path;
use std::sync::Weak;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::grant::GrantId;
use crate::{Error, Pool, Result};

/// A service that stores into the pool by itself, beside transactions: an open disk, a log.
///
/// Nothing that it is told or asked takes a tag in hand: who finds a tag in use waits for who tells and asks (F7).
pub trait Freeze: Send + Sync {
    /// Returns when nothing is being stored and all that was acknowledged can be loaded from the pool's memory. From
    /// then on requests that would store wait for [`Freeze::thaw`].
    fn freeze(&self);

    /// Goes on.
    fn thaw(&self);

    /// Grants of clients that the service has made stand still with it, for as long as it does.
    fn stilled(&self) -> Vec<GrantId> {
        Vec::new()
    }

    /// Gives back to the pool what the service has of its space and does not need; whether that was anything. It needs
    /// none itself for that, and the caller has nothing of any service in hand.
    fn spare(&self) -> bool {
        false
    }

    /// The same of what the service knows of and nobody has open, which it opens for that: asked where nothing that is open
    /// has any. Who has it open, or is about to, is not waited for: they may wait for who asks.
    fn spare_of_unopened(&self) -> bool {
        false
    }

    /// Whether files of the device with this number are the service's own: who writes to one waits until it goes on.
    fn has_files_on(&self, _device: u64) -> bool {
        false
    }
}

/// What stands still with a pool.
#[derive(Default)]
pub(crate) struct Freezers {
    gate: RwLock<()>,
    /// Held by who makes the pool stand still, for as long as it does.
    fronts: Mutex<Services>,
    /// Taken for reading by who asks services, and written while they stand still (F3, F6).
    asking: RwLock<()>,
    services: Mutex<Services>,
    /// Taken for reading by who has a service in hand (F7).
    in_hand: RwLock<()>,
}

type Services = Vec<Weak<dyn Freeze>>;

/// Held while a transaction is open.
pub(crate) type Pass<'pool> = RwLockReadGuard<'pool, ()>;

/// While it lives the pool stands still (F1). Dropped, everything goes on (F4).
pub struct Frozen<'pool> {
    pool: &'pool Pool,
    // Dropped in this order: transactions go on, then services, then who asks them, then fronts.
    _gate: RwLockWriteGuard<'pool, ()>,
    stopped: Stopped<'pool>,
    _asking: RwLockWriteGuard<'pool, ()>,
    _fronts: Stopped<'pool>,
    _more_fronts: MutexGuard<'pool, Services>,
}

/// Services that were stopped, in order.
struct Stopped<'pool> {
    all: &'pool Freezers,
    services: Services,
}

impl<'pool> Stopped<'pool> {
    fn stop(all: &'pool Freezers, services: Services) -> Self {
        let mut stopped = Self { all, services: Vec::new() };
        for service in services {
            if all.tell(&service, |service| service.freeze()).is_some() {
                stopped.services.push(service);
            }
        }
        stopped
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        while let Some(service) = self.services.pop() {
            self.all.tell(&service, |service| service.thaw());
        }
    }
}

impl Freezers {
    /// Waits while the pool stands still. A thread that has one pass gets another at once, so that a transaction
    /// inside another cannot meet a freeze between them; services have stopped by then, so passes run out (F2).
    pub fn pass(&self) -> Pass<'_> {
        self.gate.read_recursive()
    }

    fn services(&self) -> Services {
        self.services.lock().clone()
    }

    /// What `service` says to `what`; `None` where it is gone. A thread that has one in hand has another at once, as
    /// where a front stores into a disk that asks for space.
    fn tell<T>(&self, service: &Weak<dyn Freeze>, what: impl FnOnce(&dyn Freeze) -> T) -> Option<T> {
        let _in_hand = self.in_hand.read_recursive();
        service.upgrade().map(|service| what(&*service))
    }

    /// What `work` comes to while no service is in hand but its users': what they have dropped is gone (F7). The caller
    /// has nothing of any service in hand.
    pub fn with_none_in_hand<T>(&self, work: impl FnOnce() -> T) -> T {
        let _none = self.in_hand.write();
        work()
    }
}

fn add(services: &mut Services, service: Weak<dyn Freeze>) {
    services.retain(|known| known.strong_count() > 0);
    services.push(service);
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
        let fronts = Stopped::stop(all, more_fronts.clone());
        let asking = all.asking.write();
        let stopped = Stopped::stop(all, all.services());
        let gate = all.gate.write();
        Frozen { pool: self, _gate: gate, stopped, _asking: asking, _fronts: fronts, _more_fronts: more_fronts }
    }
}

impl Frozen<'_> {
    /// Grants whose clients stand still too.
    pub(crate) fn stilled(&self) -> Vec<GrantId> {
        let Stopped { all, services } = &self.stopped;
        services.iter().filter_map(|service| all.tell(service, |service| service.stilled())).flatten().collect()
    }

    /// The pool that stands still.
    pub fn pool(&self) -> &Pool {
        self.pool
    }
}

#[cfg(test)]
mod tests;
