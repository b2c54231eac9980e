//! Descriptions of a pool and its tags, for people and programs.

use std::path::PathBuf;

use ferrite_memory::{Claim, Survival, Survives, Tally, Wear};
use ferrite_pool::{Pool, SpaceUsage, Tag};
use serde::{Deserialize, Serialize};

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolReport {
    /// The identity.
    pub uuid: String,
    /// The version of the format.
    pub version: u32,
    /// The file.
    #[serde(serialize_with = "crate::paths::show")]
    pub path: PathBuf,
    /// The memory, what it survives, and whether stray writes are kept out, in one line.
    pub medium: String,
    /// The failures that durable data survives.
    pub survives: SurvivalReport,
    /// The process that owns the pool, if it is another one.
    pub owner_pid: Option<u32>,
    /// How the space is used.
    pub usage: SpaceUsage,
    /// The number of tags.
    pub tags: u64,
    /// The image that keeps the pool, if there is one.
    #[serde(default)]
    pub kept: Option<KeptReport>,
}

/// An image that keeps a pool in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptReport {
    /// The file.
    #[serde(serialize_with = "crate::paths::show")]
    pub image: PathBuf,
    /// The number of generations of the image so far; 0 before the first save.
    pub generation: u64,
    /// The time of the newest save, in seconds since 1970; `None` before the first save.
    pub saved_at_s: Option<u64>,
}

/// A tag.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TagReport {
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// The size in bytes, as the tag's users see it.
    pub size_bytes: u64,
    /// Bytes of the pool that the tag takes.
    pub space_bytes: u64,
    /// The generation.
    pub generation: u64,
}

impl TagReport {
    /// Describes `tag`.
    pub fn of(tag: &Tag) -> Self {
        Self {
            name: tag.name.clone(),
            kind: tag.kind.name().into(),
            size_bytes: tag.size,
            space_bytes: space_bytes(tag),
            generation: tag.generation,
        }
    }
}

/// Returns the bytes of the pool that `tag` takes.
pub fn space_bytes(tag: &Tag) -> u64 {
    tag.extents.iter().map(|extent| extent.span().len).sum()
}

/// Advice for a pool on a medium of which not all is known.
const ADVICE: &str = "if you know that it keeps what was flushed, --trust-medium says so, and the pool records that";

/// Which failures what is durable survives; what is durable, `when_flushed` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivalReport {
    /// The process is killed.
    pub process_crash: SurvivalAnswer,
    /// The kernel panics or is reset.
    pub kernel_crash: SurvivalAnswer,
    /// The power fails.
    pub power_loss: SurvivalAnswer,
    /// An answer is the user's word (`--trust-medium`), against what was found.
    pub trusted: bool,
    /// Only what was flushed is durable: a write that completed may be lost.
    pub when_flushed: bool,
}

/// An answer and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivalAnswer {
    /// The answer.
    pub state: SurvivalState,
    /// The reason.
    pub why: String,
}

/// Whether a failure is survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SurvivalState {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// Nothing proves either.
    NotKnown,
}

impl From<Claim> for SurvivalAnswer {
    fn from(claim: Claim) -> Self {
        let state = match claim.survives {
            Survives::Yes => SurvivalState::Yes,
            Survives::No => SurvivalState::No,
            Survives::NotKnown => SurvivalState::NotKnown,
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
        answers.iter().any(|answer| answer.state == SurvivalState::NotKnown).then_some(ADVICE)
    }
}

/// How often the pool's memory was written since its owner opened it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WearReport {
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that other processes may write to, which is not counted.
    pub shared_bytes: u64,
    /// Of pages of 4 KiB.
    pub pages: TallyReport,
    /// Of lines of 64 bytes, where they are counted.
    pub lines: Option<TallyReport>,
    /// The most written pages: first byte, and writes.
    pub top_pages: Vec<(u64, u32)>,
}

/// How writes spread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TallyReport {
    /// Units there are.
    pub units: u64,
    /// Units written at least once.
    pub written: u64,
    /// Writes in all.
    pub total: u64,
    /// Writes of the most written one.
    pub max: u32,
    /// Writes of each, if all were written evenly.
    pub mean: f64,
    /// Writes that half of the written units have at most, nine in ten, and 99 in 100.
    pub percentiles: [u32; 3],
    /// 0 where all are written evenly, 1 where one is and the others are not.
    pub gini: f64,
}

impl From<&Wear> for WearReport {
    fn from(wear: &Wear) -> Self {
        Self {
            written_bytes: wear.written_bytes,
            shared_bytes: wear.shared_bytes,
            pages: TallyReport::from(&wear.pages),
            lines: wear.lines.as_ref().map(TallyReport::from),
            top_pages: wear.top_pages.iter().map(|page| (page.at, page.writes)).collect(),
        }
    }
}

impl From<&Tally> for TallyReport {
    fn from(tally: &Tally) -> Self {
        Self {
            units: tally.units,
            written: tally.written,
            total: tally.total,
            max: tally.max,
            mean: tally.mean,
            percentiles: [tally.p50, tally.p90, tally.p99],
            gini: tally.gini,
        }
    }
}

#[cfg(test)]
mod tests;
