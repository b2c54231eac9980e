//! The image that keeps a pool in memory: `ferrite up --keep`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferrite_owner::paths::in_line;
use ferrite_owner::{KeptReport, PoolOwner};
use ferrite_pool::Error as PoolError;
use ferrite_pool::backup::{KeptFile, PoolSnapshot, SaveOptions, SaveReport};

use crate::bar::Bar;
use crate::outcome::Outcome;
use crate::service_manager::LongStep;
use crate::stop;
use crate::{host, size};

/// How often a save is tried beside programs that store to the pool themselves.
const TRIES_BESIDE_CLIENTS: u32 = 3;

/// A pool that an image keeps.
pub struct Keeper {
    file: KeptFile,
    snapshot: Arc<PoolSnapshot>,
    every: Option<Duration>,
    next: Instant,
}

impl Keeper {
    /// Opens `image`, or makes it, for saves of the pool of `owner`. `every` 0 saves at the end only.
    pub fn open(owner: &PoolOwner, image: &Path, snapshot: Arc<PoolSnapshot>, every: Duration) -> Outcome<Self> {
        let file = KeptFile::open(owner.pool(), image, host::random_uuid()?)?;
        let keeper = Self { file, snapshot, every: (!every.is_zero()).then_some(every), next: Instant::now() + every };
        keeper.report(owner);
        Ok(keeper)
    }

    /// Returns the time until the next save; `None` if saves are made at the end only.
    pub fn due(&self) -> Option<Duration> {
        self.every.map(|_| self.next.saturating_duration_since(Instant::now()))
    }

    /// Saves the pool because the time has come. Prints a failure; the next save is due as if this one had succeeded. If a
    /// signal ends the server, it ends this save too, because the last save follows at once.
    pub fn save_due(&mut self, owner: &PoolOwner, is_ended_by_signals: bool) {
        let is_ending = || is_ended_by_signals && stop::is_asked();
        match self.save(owner, false, &mut |_| !is_ending()) {
            Err(_) if is_ending() => {}
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

    /// Saves the pool for the last time, when its services have ended.
    pub fn save_last(&mut self, owner: &PoolOwner) -> Outcome {
        let bar = Bar::new();
        let mut step = LongStep::default();
        let saved = self.save(owner, true, &mut |progress| {
            bar.show(&progress);
            step.progressed();
            true
        });
        drop(bar);
        let path = in_line(self.file.path());
        match saved {
            Ok(report) => {
                let (changed, written) = (size::show(report.changed_bytes), size::show(report.written_bytes));
                remark!("saved to {path}: {changed} had changed, {written} written");
                Ok(())
            }
            Err(why) => {
                let pool = in_line(owner.lock().path());
                let what = format!("not saved to {path}, which has the save before; start again to save {pool}");
                Err(format!("{what}: {}", why.text()).into())
            }
        }
    }

    fn save(
        &mut self,
        owner: &PoolOwner,
        beside_clients: bool,
        watch: &mut dyn FnMut(ferrite_pool::Progress) -> bool,
    ) -> Outcome<SaveReport> {
        let options = SaveOptions {
            nonce: host::random() as u16,
            time_s: now_s(),
            beside_clients,
            snapshot: Some(&self.snapshot),
        };
        let mut tries = if beside_clients { TRIES_BESIDE_CLIENTS } else { 1 };
        let saved = loop {
            tries -= 1;
            match self.file.save(owner.pool(), &options, watch) {
                Err(PoolError::Busy(_)) if tries > 0 => {}
                saved => break saved?,
            }
        };
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
