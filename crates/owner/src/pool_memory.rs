//! The memory that an owner opens its pool on.

use std::sync::Arc;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Survival, Worn};
use ferrite_pool::Lock;

use crate::Result;

/// Memory whose writes are counted.
pub type CountedMemory = Worn<Arc<dyn Memory>>;

/// A pool's file, mapped, with the layers that its user asked for.
pub struct PoolMemory {
    /// The memory of the pool.
    pub memory: Arc<dyn Memory>,
    /// The mapping under the layers; `None` for memory that is not a mapped file.
    pub mapped: Option<Arc<Mapped>>,
    /// The write counters, if the user asked for them.
    pub counted: Option<Arc<CountedMemory>>,
    /// The emulated speed, as the end of the line about the memory; empty without one.
    pub speed: String,
    /// The reason if each access has to pass the owner: no client may read and write the pool by itself.
    pub sees_all: Option<&'static str>,
}

impl PoolMemory {
    /// Maps the file that `lock` holds, with `guard` against stray writes or the best one of this machine.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotAPool`] for a file that is too short, [`ferrite_pool::Error::Medium`] if the file cannot
    /// be mapped or the machine has no such guard.
    pub fn map(lock: &Lock, guard: Option<Guard>) -> Result<Self> {
        lock.ensure_room()?;
        let (guard, name) = (guard.unwrap_or_else(Guard::best), lock.path().display().to_string());
        let options = MapOptions { guard, name, ..MapOptions::default() };
        let mapped = Arc::new(lock.map(&options).map_err(ferrite_pool::Error::from)?);
        Ok(Self { memory: mapped.clone(), mapped: Some(mapped), counted: None, speed: String::new(), sees_all: None })
    }

    /// Returns what the memory is and what `survival` says about it, in one line.
    pub fn line(&self, survival: &Survival) -> String {
        self.mapped.as_ref().map_or_else(String::new, |mapped| mapped.describe(survival)) + &self.speed
    }
}
