//! Policies by name.

use crate::{Error, Result};

/// A policy that the user can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// `lru`
    Lru,
    /// `protect-N`
    Protect {
        /// Most recent ways that are not replaced for being clean.
        protected: u32,
    },
    /// `partitioned-PxW`: P partitions of W ways, each Protect-1 unless it has one way; `partitioned-PxW-protect-N`
    /// protects N
    Partitioned {
        /// The number of partitions.
        partitions: u32,
        /// Protected ways of each partition.
        protected: u32,
    },
    /// `worth`
    Worth,
}

impl PolicyChoice {
    /// Refuses a policy that a cache of `ways` ways cannot have.
    ///
    /// # Errors
    /// The reason.
    pub fn check(self, ways: u32) -> Result<()> {
        let refuse = |why: String| Err(Error::Model(format!("{}: {why}", self.name(ways))));
        match self {
            Self::Lru | Self::Worth => Ok(()),
            Self::Protect { protected } if protected > ways => {
                refuse(format!("{protected} ways cannot be protected of {ways}"))
            }
            Self::Partitioned { partitions, .. }
                if !partitions.is_power_of_two() || !ways.is_multiple_of(partitions) =>
            {
                refuse(format!("{partitions} partitions are not a power of two that divides {ways} ways"))
            }
            Self::Partitioned { partitions, protected } if protected >= ways / partitions => {
                refuse(format!("of {} ways at most {} can be protected", ways / partitions, ways / partitions - 1))
            }
            _ => Ok(()),
        }
    }

    /// Returns the name for a cache of `ways` ways.
    pub fn name(self, ways: u32) -> String {
        match self {
            Self::Lru => "lru".into(),
            Self::Worth => "worth".into(),
            Self::Protect { protected } => format!("protect-{protected}"),
            Self::Partitioned { partitions, protected } => {
                let protected = if protected == 1 { String::new() } else { format!("-protect-{protected}") };
                format!("partitioned-{partitions}x{}{protected}", ways.checked_div(partitions).unwrap_or(0))
            }
        }
    }
}

/// The numbers that a name may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyDefaults {
    /// Ways of a set.
    pub ways: u32,
    /// Protected ways, over all partitions.
    pub protected: u32,
    /// The number of partitions.
    pub partitions: u32,
}

impl PolicyDefaults {
    /// Returns the paper's numbers: a quarter of the ways is protected, and there are four partitions if the ways allow
    /// it.
    pub fn of(ways: u32) -> Self {
        Self { ways, protected: ways / 4, partitions: if ways.is_multiple_of(4) { 4 } else { 1 } }
    }

    /// Returns the policies that are compared by default.
    pub fn usual(&self) -> Vec<PolicyChoice> {
        vec![
            PolicyChoice::Lru,
            PolicyChoice::Protect { protected: 0 },
            self.protect(),
            self.partitioned(),
            PolicyChoice::Worth,
        ]
    }

    /// Returns the policy called `name`: `lru`, `protect`, `protect-N`, `partitioned`, `partitioned-PxW`,
    /// `partitioned-PxW-protect-N`, `worth`.
    ///
    /// # Errors
    /// No policy has this name, or a cache with these ways cannot have it.
    pub fn choice(&self, name: &str) -> Result<PolicyChoice> {
        let unknown = || {
            let there_are = "lru, protect-N, partitioned-PxW, partitioned-PxW-protect-N, worth; for example protect-4, partitioned-4x4";
            Error::Model(format!("there is no policy {name:?}; there are {there_are}"))
        };
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| unknown());
        let choice = match (name, name.strip_prefix("protect-"), name.strip_prefix("partitioned-")) {
            ("lru", ..) => PolicyChoice::Lru,
            ("worth", ..) => PolicyChoice::Worth,
            ("protect", ..) => self.protect(),
            ("partitioned", ..) => self.partitioned(),
            (_, Some(protected), _) => PolicyChoice::Protect { protected: number(protected)? },
            (_, _, Some(rest)) => {
                let (shape, protected) = rest.split_once("-protect-").map_or((rest, None), |two| (two.0, Some(two.1)));
                let (partitions, ways) = shape.split_once('x').ok_or_else(unknown)?;
                let (partitions, ways) = (number(partitions)?, number(ways)?);
                let protected = protected.map_or(Ok(u32::from(ways > 1)), number)?;
                if ways.checked_mul(partitions) != Some(self.ways) {
                    return Err(Error::Model(format!("{name}: the cache has {} ways, not {shape}", self.ways)));
                }
                PolicyChoice::Partitioned { partitions, protected }
            }
            _ => return Err(unknown()),
        };
        choice.check(self.ways)?;
        Ok(choice)
    }

    fn protect(&self) -> PolicyChoice {
        PolicyChoice::Protect { protected: self.protected }
    }

    fn partitioned(&self) -> PolicyChoice {
        let partitions = self.partitions.max(1);
        let most = (self.ways / partitions).saturating_sub(1);
        let protected = (self.protected / partitions).max(self.protected.min(1)).min(most);
        PolicyChoice::Partitioned { partitions: self.partitions, protected }
    }
}

#[cfg(test)]
mod tests;
