//! The services that stop when a pool is frozen.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::grant::slot::GrantId;

use super::store_gate::StoreGate;

/// A service that stores into the pool directly, beside transactions: an open disk, a log.
///
/// None of these methods opens or holds a tag: a caller that finds a tag in use waits for these calls to return (F7).
pub trait Freeze: Send + Sync {
    /// Stops storing. On return nothing is being stored, and all acknowledged data can be loaded from the pool's
    /// memory. Requests that would store wait for [`Freeze::thaw`].
    fn freeze(&self);

    /// Lets waiting requests continue.
    fn thaw(&self);

    /// Returns the grants of clients that the service has stopped for the time of the freeze.
    fn stilled(&self) -> Vec<GrantId> {
        Vec::new()
    }

    /// Releases space of the pool that the service holds and does not need. Returns true if it released any. The
    /// release itself needs no space, and the caller must not hold any service.
    fn spare(&self) -> bool {
        false
    }

    /// Releases space as [`Freeze::spare`] does, of objects that are not open: the service opens them for that. Called
    /// only if no open object had spare space, and never during a freeze. Must not wait for other users of an object, because they may wait for
    /// the caller.
    fn spare_of_unopened(&self) -> bool {
        false
    }

    /// Returns true if files of the device with this number lie in the service: a write to such a file waits until the
    /// service thaws.
    fn has_files_on(&self, _device: u64) -> bool {
        false
    }
}

/// The services of a pool and the locks that freeze them.
#[derive(Default)]
pub(crate) struct Freezers {
    pub(super) gate: RwLock<()>,
    /// Closed first by the thread that freezes the pool, and opened last (F8).
    pub(super) stores: Arc<StoreGate>,
    /// Locked by the thread that freezes the pool, until the freeze ends.
    pub(super) fronts: Mutex<FrozenServices>,
    /// Locked for reading by a thread that asks services for spare space, and for writing during a freeze (F6).
    pub(super) asking: RwLock<()>,
    pub(super) services: Mutex<FrozenServices>,
    /// Locked for reading by a thread that calls a service (F7).
    pub(super) calls: RwLock<()>,
}

pub(super) type FrozenServices = Vec<Weak<dyn Freeze>>;

/// Held while a transaction is open.
pub(crate) type TransactionPass<'pool> = RwLockReadGuard<'pool, ()>;

impl Freezers {
    /// Waits while the pool is frozen. A thread that holds a pass gets another one at once, so that a nested
    /// transaction cannot wait for a freeze that waits for the outer one. Services have stopped by then, so all passes
    /// are returned (F2).
    pub fn pass(&self) -> TransactionPass<'_> {
        self.gate.read_recursive()
    }

    pub(super) fn services(&self) -> FrozenServices {
        self.services.lock().clone()
    }

    /// Calls `what` with `service`. Returns `None` if the service is gone. A thread within such a call may call another
    /// service at once, as when a front stores into a disk that asks for space.
    pub(super) fn call_service<T>(&self, service: &Weak<dyn Freeze>, what: impl FnOnce(&dyn Freeze) -> T) -> Option<T> {
        let _calls = self.calls.read_recursive();
        service.upgrade().map(|service| what(&*service))
    }

    /// Returns the result of `work`, which runs while no thread calls a service: services that their users dropped
    /// before are gone (F7). The caller must not hold any service.
    pub fn while_no_service_is_called<T>(&self, work: impl FnOnce() -> T) -> T {
        let _none = self.calls.write();
        work()
    }
}

pub(super) fn add(services: &mut FrozenServices, service: Weak<dyn Freeze>) {
    services.retain(|known| known.strong_count() > 0);
    services.push(service);
}
