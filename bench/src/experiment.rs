//! The table of experiments.

use crate::session::Experiment;
use crate::{
    alternatives, barriers, buffering, consolidation, db_log, flash_cache, ftl, guest, llc, media, multi_ssd, nvmfs,
    objects, pace, protection, recovery, superpages, write_schemes, zones,
};

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    protection::EXPERIMENT,
    buffering::EXPERIMENT,
    write_schemes::EXPERIMENT,
    barriers::EXPERIMENT,
    pace::EXPERIMENT,
    media::EXPERIMENT,
    objects::EXPERIMENT,
    db_log::EXPERIMENT,
    llc::EXPERIMENT,
    zones::EXPERIMENT,
    superpages::EXPERIMENT,
    alternatives::EXPERIMENT,
    ftl::EXPERIMENT,
    flash_cache::EXPERIMENT,
    multi_ssd::EXPERIMENT,
    nvmfs::EXPERIMENT,
    guest::EXPERIMENT,
    consolidation::EXPERIMENT,
    recovery::EXPERIMENT,
];

/// The experiment called `name`.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests;
