//! The model compared with naive ones, and with sequences worked out by hand.

mod by_hand;
mod naive;
mod naive_worth;
mod policy;
mod random;
mod worth;

use super::{CacheEvent, CacheModel, CacheShape, PolicyChoice, Study, StudyReport, wear::WearModel};

/// Returns a cache of `sets` sets and `ways` ways with lines of 64 bytes.
fn shape(sets: u64, ways: u32) -> CacheShape {
    CacheShape { bytes: sets * u64::from(ways) * 64, ways, line_bytes: 64 }
}

fn model(llc: CacheShape, choices: &[PolicyChoice]) -> CacheModel {
    CacheModel { llc, choices: choices.to_vec(), fetch_on_write_miss: false, wear: WearModel::default(), threads: 1 }
}

fn study(model: CacheModel, events: &[CacheEvent]) -> StudyReport {
    let mut study = Study::new(model).expect("the model is sound");
    study.feed(events);
    study.finish("test")
}
