//! `ferrite up --keep`: a pool in memory that an image keeps.
//!
//! ```text
//! start   pool there: use it          pool gone: restore the image beside the pool's name, then name it
//! while   every so often, and when the power fails: save what changed
//! end     nothing is mounted or attached any more: save the last time, then close
//! ```
//!
//! The restored pool gets its name when it is whole. So a killed start leaves no pool, and nothing can be saved over the
//! image before all of it was restored (KI6).

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use ferrite_memory::make_pool_file;
use ferrite_owner::paths::in_line;
use ferrite_owner::{KeptReport, PoolMemory, PoolOwner, ServiceRequest};
use ferrite_pool::backup::{
    KeptFile, KeptSave, PoolSnapshot, RestoreOptions, SaveOptions, SaveReport, kept_save, restore_image,
};
use ferrite_sqlite_log::{DatabaseEntry, DatabaseRequest};

use crate::bar::Bar;
use crate::commands::pool;
use crate::host::{self, absolute};
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome};
use crate::stop;
use crate::{duration, size};

/// The time between two saves, in nanoseconds, unless the user gives another.
const EVERY_NS: u64 = 300_000_000_000;

/// The options of a kept pool.
#[derive(Args)]
pub(super) struct KeepArguments {
    /// Keep a pool in memory in this file: restored at start, saved every 5 minutes and at the end
    ///
    /// The pool is restored from the file if it is gone. What changed is saved every so often (--every), when the power
    /// fails (SIGPWR) and at the end.
    ///
    /// After a crash of the machine the pool is as it was at the last save: what was written since then is lost. The last
    /// whole save stays until the next one is whole. Right for caches, build trees and single databases that may lose the
    /// last minutes; wrong for a member of a cluster that promised the others to remember.
    #[arg(long, value_name = "IMAGE")]
    keep: Option<PathBuf>,
    /// Time between two saves of --keep, such as 30s or 5m; 0 saves at the end only [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "keep", hide_short_help = true)]
    every: Option<u64>,
    /// End with exit status 3 if something in the pool that --keep restored stays closed, because an object outside of the
    /// pool has seen a later generation
    #[arg(long, requires = "keep", hide_short_help = true)]
    strict: bool,
}

/// A pool that an image keeps.
pub struct Keeper {
    file: KeptFile,
    snapshot: Arc<PoolSnapshot>,
    every: Option<Duration>,
    next: Instant,
}

/// The end of a path beside the pool, where a pool is restored.
const RESTORING: &str = ".restoring";

impl KeepArguments {
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
        let restored = restore_into(&partial, &image).and_then(|()| {
            stop::go_on()?;
            Ok(fs::hard_link(&partial, path).map_err(|error| format!("making {}: {error}", path.display()))?)
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
        let file = KeptFile::open(owner.pool(), &image, host::random_uuid()?)?;
        let every = Duration::from_nanos(self.every.unwrap_or(EVERY_NS));
        let keeper =
            Keeper { file, snapshot, every: (!every.is_zero()).then_some(every), next: Instant::now() + every };
        keeper.report(owner);
        Ok(Some(RefCell::new(keeper)))
    }

    /// Prints what stays closed in a pool that was restored, with the ways out.
    ///
    /// # Errors
    /// [`Failure::Closed`] with --strict if anything does.
    pub fn remark_closed(&self, owner: &PoolOwner, more: Vec<String>) -> Outcome {
        let closed = [closed_databases(owner), more].concat();
        closed.iter().for_each(|why| remark!("stays closed: {why}"));
        if self.strict && !closed.is_empty() { Err(Failure::Closed) } else { Ok(()) }
    }
}

fn restore_into(partial: &Path, image: &Path) -> Outcome {
    let lock = pool::ours(partial)?;
    let medium = MediumArguments::default().map(&lock)?;
    let bar = Bar::new();
    let mut watch = |progress| bar.show(&progress) && !stop::is_asked();
    let restored = restore_image(image, &*medium.memory, RestoreOptions::default(), &mut watch);
    restored.map(drop).map_err(|error| format!("restoring from {}: {error}", image.display()).into())
}

/// Returns why databases stay closed whose logs are in the pool.
fn closed_databases(owner: &PoolOwner) -> Vec<String> {
    let listed = owner.call(ServiceRequest::of(&DatabaseRequest::List), &mut |_| true);
    let entries = listed.ok().and_then(|reply| serde_json::from_value::<Vec<DatabaseEntry>>(reply.value).ok());
    entries.into_iter().flatten().filter_map(|entry| entry.refusal(owner.lock().path())).collect()
}

impl Keeper {
    /// Returns the time until the next save; `None` if saves are made at the end only.
    pub fn due(&self) -> Option<Duration> {
        self.every.map(|_| self.next.saturating_duration_since(Instant::now()))
    }

    /// Saves the pool because the time has come. Prints a failure; the next save is due as if this one had succeeded.
    pub fn save_due(&mut self, owner: &PoolOwner) {
        // The last save follows a signal at once.
        match self.save(owner, false, &mut |_| !stop::is_asked()) {
            Err(_) if stop::is_asked() => {}
            Err(why) => remark!("not saved to {}: {}", self.file.path().display(), why.text()),
            Ok(_) => {}
        }
        self.next = Instant::now() + self.every.unwrap_or_default();
    }

    /// Saves the pool because the power fails. Serving goes on, even if the save fails.
    pub fn save_for_power_failure(&mut self, owner: &PoolOwner) {
        match self.save(owner, true, &mut |_| true) {
            Ok(_) => remark!("the power fails: saved to {}", self.file.path().display()),
            Err(why) => remark!("the power fails, and saving does too: {}", why.text()),
        }
    }

    /// Saves the pool for the last time, when nothing uses it any more.
    pub fn save_last(&mut self, owner: &PoolOwner) -> Outcome {
        let bar = Bar::new();
        let saved = self.save(owner, true, &mut |progress| bar.show(&progress) || true);
        drop(bar);
        let path = in_line(self.file.path());
        match saved {
            Ok(report) => {
                let (changed, written) = (size::show(report.changed_bytes), size::show(report.written_bytes));
                remark!("saved to {path}: {changed} had changed, {written} written");
                Ok(())
            }
            Err(why) => Err(format!("not saved to {path}, which has the save before: {}", why.text()).into()),
        }
    }

    fn save(
        &mut self,
        owner: &PoolOwner,
        ignore_clients: bool,
        watch: &mut dyn FnMut(ferrite_pool::Progress) -> bool,
    ) -> Outcome<SaveReport> {
        let options = SaveOptions {
            nonce: host::random() as u16,
            time_s: now_s(),
            ignore_clients,
            snapshot: Some(&self.snapshot),
        };
        let saved = self.file.save(owner.pool(), &options, watch)?;
        self.report(owner);
        Ok(saved)
    }

    fn report(&self, owner: &PoolOwner) {
        let last = self.file.last();
        owner.note_kept(KeptReport {
            image: self.file.path().into(),
            generation: last.and_then(|save| save.generation).map_or(0, |generation| generation.count()),
            saved_at_s: last.map(|save| save.time_s),
        });
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the line about an image that keeps a pool.
pub fn show_kept(kept: &KeptReport) -> String {
    let image = in_line(&kept.image);
    match kept.saved_at_s {
        Some(saved_at_s) => {
            let age = show_age(now_s().saturating_sub(saved_at_s));
            format!("{image}, saved {age} ago, generation {}", kept.generation)
        }
        None => format!("{image}, nothing saved yet"),
    }
}

fn show_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}
