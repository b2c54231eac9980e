//! A service: the code that knows what the tags of one kind hold, and that answers requests about them.
//!
//! ```text
//!   binary ---- Registry ---- Service (one for each tag kind)           known before a pool is open
//!                  |             | start
//!   PoolOwner -----+-------- RunningService (one for each open pool)    answers requests, works in the background
//! ```

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_pool::check::TagOwner;
use ferrite_pool::{Failure, Lock, Pool, PoolMember, Progress, Tag};
use serde_json::Value;

use crate::command_spec::CommandSpec;
use crate::{EndedConnection, Metric, PoolMemory, RunningServices, ServiceCall, ServiceRegistry, ServiceReply};

/// How a tag of a kind is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// By `ferrite tag remove`, if no process holds it.
    ByTagRemove,
    /// By a command of the service.
    ByCommand {
        /// What a tag of the kind is called in messages, with its article: "a disk".
        noun: &'static str,
        /// The command: "ferrite disk remove".
        command: &'static str,
    },
    /// Not by its name alone; the text says what the tag is, and what to do.
    Refused(&'static str),
}

/// A service, as a program links it: one for each kind of tags. [`TagOwner`] gives the kind, the check, the repair and the
/// relocation.
pub trait Service: TagOwner {
    /// Returns the name of the service: of its requests on the wire, and of its subcommands.
    fn name(&self) -> &'static str;

    /// Returns further names of requests that the service answers; [`ServiceCall::service`] has the name.
    fn protocols(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns how tags of the kind are removed.
    fn removal(&self) -> Removal {
        Removal::ByTagRemove
    }

    /// Returns the subcommands of `ferrite NAME`, as data.
    fn commands(&self) -> &'static [CommandSpec] {
        &[]
    }

    /// Starts the service in a pool that this process has just opened. A service that stores by itself registers a
    /// [`ferrite_pool::Freeze`] here, so that it stands still for a backup.
    ///
    /// # Errors
    /// A failure ends the opening of the pool.
    fn start(&self, pool: &ServicePool<'_>) -> Result<Arc<dyn RunningService>, Failure>;
}

/// The pool that a service starts in.
pub struct ServicePool<'a> {
    /// The pool.
    pub pool: &'a Arc<Pool>,
    /// The lock on the pool's file.
    pub lock: &'a Lock,
    /// The memory of the pool.
    pub memory: &'a PoolMemory,
    /// This boot of the machine.
    pub boot_id: [u8; 16],
    /// The services that this program links.
    pub registry: &'a Arc<ServiceRegistry>,
    /// The services that run in the pool; empty until all have started.
    pub running: Weak<RunningServices>,
}

/// What a tag keeps outside of the pool, while a backup copies it.
pub trait HeldOutside {
    /// Copies it, as it was when the pool stood still, to files beside `image`, durable on return. Returns them.
    ///
    /// # Errors
    /// The failure of the outside or of the files; [`ferrite_pool::FailureKind::Cancelled`] if `watch` returns false.
    fn copy(&self, image: &Path, watch: &mut dyn FnMut(Progress) -> bool) -> Result<Vec<PathBuf>, Failure>;
}

/// A service of an open pool. Clients call it from many threads at once.
pub trait RunningService: Any + Send + Sync {
    /// Does what `call` asks.
    ///
    /// # Errors
    /// The client receives the failure with its kind.
    fn call(&self, call: ServiceCall<'_>) -> Result<ServiceReply, Failure>;

    /// Ends what the service does for a connection that has ended. As [`crate::Handler::connection_ended`].
    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        let _ = ended;
    }

    /// Does a part of the background work. Returns the time after which the next call is due; `None` for a service that
    /// has no background work.
    fn step(&self) -> Option<Duration> {
        None
    }

    /// Returns the state of `tag`, which is of the service's kind, for people and programs.
    fn stat(&self, tag: &Tag) -> Option<Value> {
        let _ = tag;
        None
    }

    /// Returns the metrics of the service, always the same ones; docs/metrics.md describes each.
    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    /// Returns what the tags of the service keep outside of the pool and no image of the pool has: their names and bytes.
    ///
    /// # Errors
    /// The failure of reading that.
    fn outside(&self) -> Result<Vec<(String, u64)>, Failure> {
        Ok(Vec::new())
    }

    /// Allows a backup to copy what [`RunningService::outside`] lists, as it is at the next freeze of the pool.
    ///
    /// # Errors
    /// The failure says what has to be opened or ended first.
    fn hold_outside(&self) -> Result<Vec<Box<dyn HeldOutside>>, Failure> {
        Ok(Vec::new())
    }

    /// Returns the files outside of the pool that the service keeps in step with it.
    fn members(&self) -> Vec<PoolMember> {
        Vec::new()
    }

    /// Returns the names of the disks that [`RunningService::open_disk`] opens. They are the names of tags, or names that
    /// the service gives to disks in its tags. Nothing is opened for it.
    fn disk_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Opens the disk called `name`; `None` for a service that has no disks.
    fn open_disk(&self, name: &str) -> Option<Result<Arc<dyn Disk>, Failure>> {
        let _ = name;
        None
    }

    /// Returns the bytes of the disk called `name`, which is one of [`RunningService::disk_names`], if they are known
    /// without opening it.
    fn disk_size(&self, name: &str) -> Option<u64> {
        let _ = name;
        None
    }

    /// Closes the disk called `name`, which this service opened by [`RunningServices::open_disk`], because the service that
    /// has it closes or removes it.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] while a client uses the disk.
    fn close_disk(&self, name: &str) -> Result<(), Failure> {
        let _ = name;
        Ok(())
    }

    /// Refuses a file that lies on something that the service shows, such as the node of a disk: a process that writes
    /// there while the pool stands still would wait forever.
    ///
    /// # Errors
    /// [`ferrite_pool::FailureKind::RefusedTags`], with another place to name.
    fn refuse_own(&self, file: &Path) -> Result<(), Failure> {
        let _ = file;
        Ok(())
    }

    /// Returns true if anything of the service is mounted, attached or served.
    fn is_used(&self) -> bool {
        false
    }

    /// Ends the service before the pool is closed, even if something of it is in use, and makes its data durable.
    ///
    /// # Errors
    /// The first failure; the service has ended all the same.
    fn end(&self) -> Result<(), Failure> {
        Ok(())
    }
}
