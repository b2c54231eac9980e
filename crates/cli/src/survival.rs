//! What a pool survives, for programs.

use ferrite_medium::{Memory, Survival};
use serde::{Deserialize, Serialize};

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
