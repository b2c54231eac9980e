//! Standing still: services and transactions wait while a backup or a check reads the pool as of one moment.
//!
//! - F1. While a [`Frozen`] lives no transaction is open, and every registered service has stopped storing.
//! - F2. Fronts stop first, services after them and transactions last: what one lets finish may need the next.
//! - F3. A service that registers while the pool stands still waits until it does not.
//! - F4. However a freeze ends, by a panic too, everything that was stopped goes on.
//! - F5. Nothing is written meanwhile to a file that a service has in the pool: it would be waited for in vain.
//! - F6. Nobody asks for spare space while services stop or stand still: one that is asked stores, and would wait. While
//!   fronts empty themselves all are there to be asked.
//!
//! Nothing may wait for a transaction with a lock in hand that the holder of a [`Frozen`] takes: the pool's own
//! operations start their transaction before they lock the tag table.

use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::grant::GrantId;
use crate::{Error, Pool, Result};

/// A service that stores into the pool by itself, beside transactions: an open disk, a log.
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
}

type Services = Vec<Weak<dyn Freeze>>;

/// Held while a transaction is open.
pub(crate) type Pass<'pool> = RwLockReadGuard<'pool, ()>;

/// While it lives the pool stands still (F1). Dropped, everything goes on (F4).
pub struct Frozen<'pool> {
    pool: &'pool Pool,
    // Dropped in this order: transactions go on, then services, then who asks them, then fronts.
    _gate: RwLockWriteGuard<'pool, ()>,
    stopped: Stopped,
    _asking: RwLockWriteGuard<'pool, ()>,
    _fronts: Stopped,
    _more_fronts: MutexGuard<'pool, Services>,
}

/// Services that were stopped, in order.
struct Stopped(Vec<Arc<dyn Freeze>>);

impl Stopped {
    fn stop(services: impl IntoIterator<Item = Arc<dyn Freeze>>) -> Self {
        let mut stopped = Self(Vec::new());
        for service in services {
            service.freeze();
            stopped.0.push(service);
        }
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        while let Some(service) = self.0.pop() {
            service.thaw();
        }
    }
}

impl Freezers {
    /// Waits while the pool stands still. A thread that has one pass gets another at once, so that a transaction
    /// inside another cannot meet a freeze between them; services have stopped by then, so passes run out (F2).
    pub fn pass(&self) -> Pass<'_> {
        self.gate.read_recursive()
    }

    fn services(&self) -> Vec<Arc<dyn Freeze>> {
        living(&self.services.lock())
    }
}

fn living(services: &Services) -> Vec<Arc<dyn Freeze>> {
    services.iter().filter_map(Weak::upgrade).collect()
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
        let services = self.freezers().services();
        let is_other =
            |service: &&Arc<dyn Freeze>| asking.is_none_or(|it| !std::ptr::addr_eq(it, Arc::as_ptr(service)));
        let is_any = services.iter().filter(is_other).filter(|service| service.spare()).count() > 0;
        is_any || services.iter().filter(is_other).any(|service| service.spare_of_unopened())
    }

    /// Refuses a place on a device of this number, whose files a service has: who writes there while the pool stands still
    /// waits for ever (F5).
    pub(crate) fn refuse_own_device(&self, device: u64, place: &Path) -> Result<()> {
        let services = self.freezers().services();
        if services.iter().any(|service| service.has_files_on(device)) {
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
        let fronts = Stopped::stop(living(&more_fronts));
        let asking = all.asking.write();
        let stopped = Stopped::stop(all.services());
        let gate = all.gate.write();
        Frozen { pool: self, _gate: gate, stopped, _asking: asking, _fronts: fronts, _more_fronts: more_fronts }
    }
}

impl Frozen<'_> {
    /// Grants whose clients stand still too.
    pub(crate) fn stilled(&self) -> Vec<GrantId> {
        self.stopped.0.iter().flat_map(|service| service.stilled()).collect()
    }

    /// The pool that stands still.
    pub fn pool(&self) -> &Pool {
        self.pool
    }
}

#[cfg(test)]
mod tests;
