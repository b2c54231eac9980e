//! The failures that a medium survives, with the reasons.

use std::fmt;

use crate::crc32;

/// Whether a medium keeps its durable content through a failure; from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Survives {
    /// The medium loses it.
    No,
    /// The kernel reports nothing that proves either answer.
    NotKnown,
    /// The medium keeps it.
    Yes,
}

/// One answer with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The answer.
    pub survives: Survives,
    /// The reason, as a clause without a full stop. Reasons of `No` and `NotKnown` name no single device, so that they
    /// stay the same if the kernel numbers devices differently.
    pub why: String,
}

/// The failures that a memory survives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survival {
    /// The process is killed.
    pub process_crash: Claim,
    /// The kernel panics or is reset.
    pub kernel_crash: Claim,
    /// The power fails.
    pub power_loss: Claim,
}

impl Claim {
    /// Returns the answer `survives` with the reason `why`.
    pub fn new(survives: Survives, why: impl Into<String>) -> Self {
        Self { survives, why: why.into() }
    }

    /// Returns the claim of a user who trusts the medium in spite of this one.
    fn trusted(self) -> Self {
        match self.survives {
            Survives::Yes => self,
            Survives::NotKnown => {
                Self::new(Survives::Yes, format!("trusted by its user, else not known: {}", self.why))
            }
            Survives::No => Self::new(Survives::Yes, format!("trusted by its user, else no: {}", self.why)),
        }
    }
}

impl Survival {
    /// Returns the answers for a memory that survives none of the three because of `why`.
    pub fn none(why: &str) -> Self {
        let no = || Claim::new(Survives::No, why);
        Self { process_crash: no(), kernel_crash: no(), power_loss: no() }
    }

    /// Returns the answers for a memory that survives all three because of `why`.
    pub fn all(why: &str) -> Self {
        let yes = || Claim::new(Survives::Yes, why);
        Self { process_crash: yes(), kernel_crash: yes(), power_loss: yes() }
    }

    /// Returns a fingerprint of the claims about kernel crashes and power loss, which is never 0. The fingerprint
    /// changes when the content moves to a medium of another kind.
    pub fn fingerprint(&self) -> u32 {
        let text = |claim: &Claim| format!("{:?} {}\n", claim.survives, claim.why);
        crc32(0, (text(&self.kernel_crash) + &text(&self.power_loss)).as_bytes()).max(1)
    }

    /// Returns the claims of a user who trusts the medium to survive kernel crashes and power loss.
    pub fn trusted(self) -> Self {
        Self { kernel_crash: self.kernel_crash.trusted(), power_loss: self.power_loss.trusted(), ..self }
    }

    /// Returns the survival in plain words; `when_flushed` says that only flushed data is durable.
    pub fn describe(&self, when_flushed: bool) -> String {
        let clauses = [
            (Survives::Yes, "survives", "and"),
            (Survives::NotKnown, "is not known to survive", "or"),
            (Survives::No, "does not survive", "or"),
        ];
        let message = clauses.into_iter().filter_map(|(state, verb, word)| self.clause(state, verb, word));
        let subject = if when_flushed { "what was flushed " } else { "" };
        format!("{subject}{}", message.collect::<Vec<_>>().join("; "))
    }

    /// Returns the failures whose answer is `state`, with their reasons.
    fn clause(&self, state: Survives, verb: &str, word: &str) -> Option<String> {
        let (mut names, mut reasons) = (Vec::new(), Vec::new());
        for (name, claim) in self.failures().into_iter().filter(|(_, claim)| claim.survives == state) {
            names.push(name);
            // Most memories survive a process crash: only the exception needs a reason.
            let is_plain = name == PROCESS_CRASH && state == Survives::Yes;
            if !is_plain && !reasons.contains(&claim.why.as_str()) {
                reasons.push(&claim.why);
            }
        }
        let (last, first) = names.split_last()?;
        let names = if first.is_empty() { (*last).to_owned() } else { format!("{} {word} {last}", first.join(", ")) };
        let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", and ")) };
        Some(format!("{verb} {names}{reasons}"))
    }

    fn failures(&self) -> [(&'static str, &Claim); 3] {
        [(PROCESS_CRASH, &self.process_crash), ("a kernel crash", &self.kernel_crash), ("power loss", &self.power_loss)]
    }
}

const PROCESS_CRASH: &str = "a process crash";

impl fmt::Display for Survives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no",
            Self::NotKnown => "not known",
            Self::Yes => "yes",
        })
    }
}

#[cfg(test)]
mod tests;
