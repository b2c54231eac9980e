//! The services that stand still with a pool.

use std::sync::Weak;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::grant::slot::GrantId;

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
    pub(super) gate: RwLock<()>,
    /// Held by who makes the pool stand still, for as long as it does.
    pub(super) fronts: Mutex<FrozenServices>,
    /// Taken for reading by who asks services, and written while they stand still (F3, F6).
    pub(super) asking: RwLock<()>,
    pub(super) services: Mutex<FrozenServices>,
    /// Taken for reading by who has a service in hand (F7).
    pub(super) in_hand: RwLock<()>,
}

pub(super) type FrozenServices = Vec<Weak<dyn Freeze>>;

/// Held while a transaction is open.
pub(crate) type TransactionPass<'pool> = RwLockReadGuard<'pool, ()>;

impl Freezers {
    /// Waits while the pool stands still. A thread that has one pass gets another at once, so that a transaction
    /// inside another cannot meet a freeze between them; services have stopped by then, so passes run out (F2).
    pub fn pass(&self) -> TransactionPass<'_> {
        self.gate.read_recursive()
    }

    pub(super) fn services(&self) -> FrozenServices {
        self.services.lock().clone()
    }

    /// What `service` says to `what`; `None` where it is gone. A thread that has one in hand has another at once, as
    /// where a front stores into a disk that asks for space.
    pub(super) fn tell<T>(&self, service: &Weak<dyn Freeze>, what: impl FnOnce(&dyn Freeze) -> T) -> Option<T> {
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

pub(super) fn add(services: &mut FrozenServices, service: Weak<dyn Freeze>) {
    services.retain(|known| known.strong_count() > 0);
    services.push(service);
}
