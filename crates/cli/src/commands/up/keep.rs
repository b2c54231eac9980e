//! `ferrite up --keep`: a pool in memory that an image keeps.
//!
//! ```text
//! start   pool there: use it          pool gone: restore the image beside the pool's name, then name it
//! while   every so often, and when the power fails: save what changed (`keeper.rs`)
//! end     nothing is mounted or attached any more: save the last time, then close
//! ```
//!
//! The restored pool gets its name when it is whole. So a killed start leaves no pool, and nothing can be saved over the
//! image before all of it was restored (KI6).

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ferrite_memory::make_pool_file;
use ferrite_owner::{PoolMemory, PoolOwner, ServiceRequest};
use ferrite_pool::Lock;
use ferrite_pool::backup::{KeptSave, PoolSnapshot, RestoreOptions, kept_save, restore_image};
use ferrite_sqlite_log::{DatabaseEntry, DatabaseRequest};

use crate::bar::Bar;
use crate::commands::pool;
use crate::duration;
use crate::host::{self, absolute};
use crate::keeper::Keeper;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome};
use crate::service_manager::LongStep;
use crate::stop;

/// The time between two saves, in nanoseconds, unless the user gives another.
const EVERY_NS: u64 = 300_000_000_000;

/// The options of a kept pool.
#[derive(Args)]
pub(super) struct KeepArguments {
    /// Keep a pool in memory in this file: restored at start, saved every 5 minutes and at the end
    ///
    /// Ferrite restores the pool from the file if the pool is gone. It saves the changes at each interval (--every), when
    /// the power fails (SIGPWR), and at the end.
    ///
    /// After a crash of the machine the pool is as it was at the last save: what was written since then is lost. The last
    /// whole save stays until the next one is whole. Right for caches, build trees and single databases that may lose the
    /// last minutes; wrong for a member of a cluster that promised the others to remember, and for pools with SSDs (caches
    /// and tiers) or guests, which are refused when the pool is older than they are.
    #[arg(long, value_name = "IMAGE", conflicts_with = "ssd")]
    keep: Option<PathBuf>,
    /// Time between two saves of --keep, such as 30s or 5m; 0 saves at the end only [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "keep", hide_short_help = true)]
    every: Option<u64>,
    /// End with exit status 3 if something in the pool stays closed, because an object outside of the pool has seen a later
    /// generation, as after a restore
    #[arg(long, requires = "keep", hide_short_help = true)]
    strict: bool,
}

/// The end of a path beside the pool, where a pool is restored.
const RESTORING: &str = ".restoring";

impl KeepArguments {
    /// Returns true if the server ends if something stays closed.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Returns the absolute path of the image.
    pub fn image(&self) -> Outcome<Option<PathBuf>> {
        self.keep.as_deref().map(absolute).transpose()
    }

    /// Makes the pool at `path` from the image if the pool is gone and the image holds a save. The pool gets `size` bytes
    /// if it had fewer. Returns the save.
    pub fn restore(&self, path: &Path, size: Option<u64>) -> Outcome<Option<KeptSave>> {
        let Some(image) = self.image()?.filter(|_| !path.exists()) else { return Ok(None) };
        let Some(save) = kept_save(&image)? else { return Ok(None) };
        let partial = host::beside(path, RESTORING);
        if partial.exists() {
            // A killed start left it, because this process gets its lock.
            drop(pool::ours(&partial)?);
            fs::remove_file(&partial)?;
        }
        let bytes = size.unwrap_or(0).max(save.pool_bytes);
        make_pool_file(&partial, bytes).map_err(|error| format!("making {}: {error}", partial.display()))?;
        // The lock keeps another start from this file until it has the pool's name.
        let restored = restore_into(&partial, &image).and_then(|lock| {
            stop::go_on()?;
            fs::hard_link(&partial, path).map_err(|error| format!("making {}: {error}", path.display()))?;
            Ok(lock)
        });
        let _ = fs::remove_file(&partial);
        restored?;
        host::persist_name(path)?;
        Ok(Some(save))
    }

    /// Puts snapshots around `memory`, before a pool is opened on it, if an image keeps that pool.
    pub fn snapshot(&self, memory: &mut PoolMemory) -> Option<Arc<PoolSnapshot>> {
        self.keep.as_ref()?;
        let snapshot = Arc::new(PoolSnapshot::new(Arc::clone(&memory.memory)));
        memory.memory = snapshot.clone();
        Some(snapshot)
    }

    /// Opens the image for saves of the pool of `owner`.
    pub fn keeper(&self, owner: &PoolOwner, snapshot: Option<Arc<PoolSnapshot>>) -> Outcome<Option<RefCell<Keeper>>> {
        let (Some(image), Some(snapshot)) = (self.image()?, snapshot) else { return Ok(None) };
        let every = Duration::from_nanos(self.every.unwrap_or(EVERY_NS));
        Ok(Some(RefCell::new(Keeper::open(owner, &image, snapshot, every)?)))
    }

    /// Prints the objects of the pool that stay closed, with the remedies.
    ///
    /// # Errors
    /// [`Failure::Closed`] with --strict if anything does.
    pub fn remark_closed(&self, owner: &PoolOwner, more: Vec<String>) -> Outcome {
        let closed = [closed_databases(owner), more].concat();
        closed.iter().for_each(|why| remark!("stays closed: {why}"));
        if self.strict && !closed.is_empty() { Err(Failure::Closed) } else { Ok(()) }
    }
}

fn restore_into(partial: &Path, image: &Path) -> Outcome<Lock> {
    let lock = pool::ours(partial)?;
    let medium = MediumArguments::default().map(&lock)?;
    let bar = Bar::new();
    let mut step = LongStep::default();
    let mut watch = |progress| {
        step.progressed();
        bar.show(&progress) && !stop::is_asked()
    };
    let restored = restore_image(image, &*medium.memory, RestoreOptions::default(), &mut watch);
    restored.map_err(|error| format!("restoring from {}: {error}", image.display()))?;
    Ok(lock)
}

/// Returns why databases stay closed whose logs are in the pool.
fn closed_databases(owner: &PoolOwner) -> Vec<String> {
    let listed = owner.call(ServiceRequest::of(&DatabaseRequest::List), &mut |_| true);
    let entries = listed.ok().and_then(|reply| serde_json::from_value::<Vec<DatabaseEntry>>(reply.value).ok());
    entries.into_iter().flatten().filter_map(|entry| entry.refusal(owner.lock().path())).collect()
}
