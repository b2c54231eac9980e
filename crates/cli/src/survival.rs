//! What a pool survives, for programs.

use ferrite_medium::{Memory, Scheme, Survival};
use serde::{Deserialize, Serialize};

use crate::request::Serving;

/// What lives through what, once it is durable: when it completed, or where that is not enough when it was flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivalReport {
    /// The process is killed.
    pub process_crash: bool,
    /// The kernel panics or is reset.
    pub kernel_crash: bool,
    /// The power fails.
    pub power_loss: bool,
    /// Only what was flushed survives: a write that completed may be lost.
    pub when_flushed: bool,
}

impl SurvivalReport {
    /// What `memory` survives.
    pub fn of(memory: &dyn Memory) -> Self {
        let Survival { process_crash, kernel_crash, power_loss } = memory.survival();
        Self { process_crash, kernel_crash, power_loss, when_flushed: !memory.fence_is_durable() }
    }
}

impl Serving {
    /// Whether a write that completed waits for a flush, whatever the pool lies in.
    pub fn has_volatile_cache(&self) -> bool {
        let scheme = self.scheme.as_ref().and_then(|name| Scheme::from_name(name)).unwrap_or_default();
        self.buffering.is_some() || !scheme.settles_at_fence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_waits_for_a_flush() {
        let by = |name: &str| Serving { scheme: Some(name.into()), ..Serving::default() }.has_volatile_cache();
        assert!(!Serving::default().has_volatile_cache() && !by("nt") && !by("writethrough"));
        assert!(by("writeback") && by("writeback-all"));
    }
}
