//! The services that a program links.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use ferrite_disk::Disk;
use ferrite_pool::check::{TagOwner, TagOwners};
use ferrite_pool::{Error as PoolError, Failure, FailureKind, Pool, TagKind};

use crate::service::{Removal, RunningService, Service};
use crate::services::BUILT_IN;

/// The services of a program, by the kind of their tags. A program registers each service by one line.
#[derive(Default)]
pub struct ServiceRegistry {
    services: BTreeMap<TagKind, Arc<dyn Service>>,
}

impl fmt::Debug for ServiceRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.services.values().map(|service| service.name())).finish()
    }
}

impl ServiceRegistry {
    /// Adds `service`.
    ///
    /// # Panics
    /// If another service has the kind or one of the names: that is a bug of the program.
    #[must_use]
    pub fn with(mut self, service: impl Service + 'static) -> Self {
        let names = |service: &dyn Service| [&[service.name()], service.protocols()].concat();
        for name in names(&service) {
            let is_taken = self.services.values().any(|known| names(&**known).contains(&name));
            assert!(!is_taken && !BUILT_IN.contains(&name), "two services are called {name:?}");
        }
        let known = self.services.insert(service.kind(), Arc::new(service));
        assert!(known.is_none(), "two services have one kind of tags");
        self
    }

    /// Returns the service of tags of `kind`.
    pub fn of(&self, kind: TagKind) -> Option<&Arc<dyn Service>> {
        self.services.get(&kind)
    }

    /// Returns the services, by the number of their kind.
    pub fn services(&self) -> impl Iterator<Item = &Arc<dyn Service>> {
        self.services.values()
    }

    /// Returns the owners of tags that a check, a repair and a defragmentation ask.
    pub fn owners(&self) -> TagOwners {
        let mut owners = TagOwners::default();
        self.services.values().for_each(|service| owners.register_shared(Arc::clone(service) as Arc<dyn TagOwner>));
        owners
    }

    /// Returns the failure for `error`. If a name in `pool` is taken, the message says how to free it.
    pub fn taken(&self, pool: &Pool, error: PoolError) -> Failure {
        let PoolError::Exists(name) = &error else { return error.into() };
        let kind = pool.tag(name).map(|tag| tag.kind);
        let message = match kind {
            Ok(TagKind::BYTES) => format!("{error}: choose another name, or `ferrite tag remove` that first"),
            Ok(kind) => match self.of(kind).map(|service| service.removal()) {
                Some(Removal::ByCommand { noun, command }) => {
                    format!("{error}, {noun}: choose another name, or `{command}` that first")
                }
                _ => format!("{error}, of kind {}: choose another name", kind.name()),
            },
            Err(_) => format!("{error}: choose another name"),
        };
        Failure::new(FailureKind::Exists, message)
    }
}

/// The services that run in one open pool.
#[derive(Default)]
pub struct RunningServices {
    all: OnceLock<Vec<StartedService>>,
}

/// A service and its names.
pub(crate) struct StartedService {
    pub kind: TagKind,
    pub names: Vec<&'static str>,
    pub service: Arc<dyn RunningService>,
}

impl RunningServices {
    pub(crate) fn set(&self, all: Vec<StartedService>) {
        let _ = self.all.set(all);
    }

    /// Returns the services, by the number of their kind.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn RunningService>> {
        self.running().iter().map(|running| &running.service)
    }

    /// Ends all services. Returns the first failure.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        self.iter().map(|service| service.end()).fold(Ok(()), Result::and)
    }

    fn running(&self) -> &[StartedService] {
        self.all.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the service that answers requests to `name`.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn RunningService>> {
        self.running().iter().find(|running| running.names.contains(&name)).map(|running| &running.service)
    }

    /// Returns the service of tags of `kind`.
    pub fn of(&self, kind: TagKind) -> Option<&Arc<dyn RunningService>> {
        self.running().iter().find(|running| running.kind == kind).map(|running| &running.service)
    }

    /// Returns the names that the services open as disks, by name.
    pub fn disk_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.iter().flat_map(|service| service.disk_names()).collect();
        names.sort_unstable();
        names
    }

    /// Opens the disk called `name`: a tag of `pool`, or a disk that a service has in a tag of another name. Returns `None`
    /// if no service opens it.
    pub fn open_disk(&self, pool: &Pool, name: &str) -> Option<Result<Arc<dyn Disk>, Failure>> {
        match pool.tag(name) {
            Ok(tag) => self.of(tag.kind)?.open_disk(name),
            Err(_) => self.with_disk(name)?.service.open_disk(name),
        }
    }

    /// Returns the name of the service that opens the disk called `name`, and the bytes of the disk, if the service knows
    /// them.
    pub fn disk_of(&self, name: &str) -> Option<(&'static str, Option<u64>)> {
        let running = self.with_disk(name)?;
        Some((running.names[0], running.service.disk_size(name)))
    }

    fn with_disk(&self, name: &str) -> Option<&StartedService> {
        self.running().iter().find(|running| running.service.disk_names().iter().any(|known| known == name))
    }
}
