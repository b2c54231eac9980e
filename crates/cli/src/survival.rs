//! Which failures a pool survives, for people and programs; and the user's word about it.

use clap::Args;
use ferrite_memory::{Claim, Scheme, Survival, Survives};
use ferrite_pool::Pool;
use serde::{Deserialize, Serialize};

use crate::request::Serving;

/// Advice for a pool on a medium of which not all is known.
const ADVICE: &str = "if you know that it keeps what was flushed, --trust-medium says so, and the pool records that";

/// The user's word for the medium.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Trust {
    /// Claim that the medium keeps what is durable through kernel crashes and power loss, whatever Ferrite finds; the pool
    /// records it, and every claim says so. =no takes it back
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes", value_parser = yes_or_no)]
    pub trust_medium: Option<bool>,
}

/// Which failures what is durable survives; what is durable, `when_flushed` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivalReport {
    /// The process is killed.
    pub process_crash: Answer,
    /// The kernel panics or is reset.
    pub kernel_crash: Answer,
    /// The power fails.
    pub power_loss: Answer,
    /// An answer is the user's word (`--trust-medium`), against what was found.
    pub trusted: bool,
    /// Only what was flushed is durable: a write that completed may be lost.
    pub when_flushed: bool,
}

/// An answer and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The answer.
    pub state: State,
    /// The reason.
    pub why: String,
}

/// Whether a failure is survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// Nothing proves either.
    NotKnown,
}

impl From<Claim> for Answer {
    fn from(claim: Claim) -> Self {
        let state = match claim.survives {
            Survives::Yes => State::Yes,
            Survives::No => State::No,
            Survives::NotKnown => State::NotKnown,
        };
        Self { state, why: claim.why }
    }
}

impl SurvivalReport {
    /// Returns what `pool` survives.
    pub fn of(pool: &Pool) -> Self {
        let (survival, memory) = (pool.survival(), pool.memory());
        let trusted = survival != memory.survival();
        let Survival { process_crash, kernel_crash, power_loss } = survival;
        Self {
            process_crash: process_crash.into(),
            kernel_crash: kernel_crash.into(),
            power_loss: power_loss.into(),
            trusted,
            when_flushed: !memory.fence_is_durable(),
        }
    }

    /// Returns what the user can do about an answer that is not known.
    pub fn advice(&self) -> Option<&'static str> {
        let answers = [&self.kernel_crash, &self.power_loss];
        answers.iter().any(|answer| answer.state == State::NotKnown).then_some(ADVICE)
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("yes or no".into()),
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

    #[test]
    fn only_what_is_not_known_is_advised_on() {
        let report = |state| {
            let answer = Answer { state, why: String::new() };
            let (process_crash, kernel_crash) = (answer.clone(), answer.clone());
            SurvivalReport { process_crash, kernel_crash, power_loss: answer, trusted: false, when_flushed: false }
        };
        assert!(report(State::NotKnown).advice().is_some_and(|text| text.contains("--trust-medium")));
        assert_eq!((report(State::No).advice(), report(State::Yes).advice()), (None, None));
    }
}
