//! The services that `ferrite` links: a service is registered here by one line.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use ferrite_cache::{CacheService, MemberOpener, OpenCaches};
use ferrite_disk_address::HostClock;
use ferrite_guest::GuestService;
use ferrite_object::ObjectService;
use ferrite_owner::{PoolOwner, RunningService, ServiceRegistry};
use ferrite_pool::TagKind;
use ferrite_sqlite_log::DatabaseService;

use crate::disks::{DiskService, OpenDisks};
use crate::filesystems::{FilesService, Filesystems};
use crate::member_opener::AddressOpener;

/// Returns the services.
pub fn registry() -> Arc<ServiceRegistry> {
    static SERVICES: LazyLock<Arc<ServiceRegistry>> = LazyLock::new(|| {
        let services = ServiceRegistry::default()
            .with(DiskService)
            .with(FilesService)
            .with(ObjectService)
            .with(DatabaseService)
            .with(CacheService::new(Arc::new(AddressOpener), Arc::new(HostClock::new())))
            .with(GuestService::new(Arc::new(|address: &str| AddressOpener.open(address))));
        #[cfg(feature = "example")]
        let services = services.with(ferrite_counters::CounterService);
        Arc::new(services)
    });
    Arc::clone(&SERVICES)
}

/// Returns the disks of the pool that `owner` owns.
pub fn disks(owner: &PoolOwner) -> Arc<OpenDisks> {
    running(owner, TagKind::DISK)
}

/// Returns the caches of the pool that `owner` owns.
pub fn caches(owner: &PoolOwner) -> Arc<OpenCaches> {
    running(owner, TagKind::CACHE)
}

/// Returns the file systems of the pool that `owner` owns.
pub fn filesystems(owner: &PoolOwner) -> Arc<Filesystems> {
    running(owner, TagKind::FILES)
}

fn running<S: RunningService>(owner: &PoolOwner, kind: TagKind) -> Arc<S> {
    let service: Arc<dyn Any + Send + Sync> = Arc::clone(owner.running().of(kind).expect("it is registered")) as _;
    service.downcast().expect("it is registered for the kind")
}

#[cfg(test)]
mod tests;
