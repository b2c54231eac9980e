//! Figure 2.14: where accesses and writebacks fall in a partitioned cache, beside one of four ways that is divided by
//! the two highest bits of the set's number.

use ferrite_sim::cache::policy::{LineMiss, Policy, Protect};
use ferrite_sim::cache::{Bank, BankCounts, BankGeometry, CacheEvent, CacheShape, Rank, Set, StudyReport};

use crate::Result;
use crate::report::ReportRow;

const WAYS: u32 = 4;

/// Protect-N whose regions are quarters of the sets.
struct Quartered {
    protect: Protect,
    quarter_sets: u32,
}

impl Policy for Quartered {
    fn victim<S: Set>(&mut self, set: &S, miss: LineMiss) -> Rank {
        self.protect.victim(set, miss)
    }

    fn region(&self, set: u32) -> Option<usize> {
        Some((set / self.quarter_sets) as usize)
    }
}

/// The divided caches, Protect-0 and Protect-1.
pub struct QuarteredCaches {
    geometry: BankGeometry,
    caches: [(String, Vec<Bank<Quartered>>); 2],
}

impl QuarteredCaches {
    /// Caches of the size of `llc`.
    pub fn new(llc: CacheShape) -> Result<Self> {
        let shape = CacheShape { ways: WAYS, ..llc };
        let geometry = BankGeometry::of(shape)?;
        let quarter_sets = (shape.sets()? / 4).max(1);
        let cache = |protected| {
            let bank = |_| Bank::new(geometry, Quartered { protect: Protect { ways: WAYS, protected }, quarter_sets });
            (format!("protect-{protected}, 4 ways"), (0..geometry.banks()).map(bank).collect())
        };
        Ok(Self { geometry, caches: [cache(0), cache(1)] })
    }

    /// Simulates events.
    pub fn feed(&mut self, events: &[CacheEvent]) {
        let mut sorted = vec![Vec::new(); self.geometry.banks()];
        events.iter().for_each(|event| sorted[self.geometry.bank(event.line())].push(*event));
        for (_, banks) in &mut self.caches {
            banks.iter_mut().zip(&sorted).for_each(|(bank, events)| bank.run(events));
        }
    }

    /// Adds the accesses and the writeback rate of each quarter and each partition.
    pub fn add_rows(self, rows: &mut Vec<ReportRow>, report: &StudyReport) {
        let partitioned = report.policies.iter().find(|one| one.policy.starts_with("partitioned"));
        let mut subjects: Vec<(String, BankCounts)> = Vec::new();
        for (name, banks) in &self.caches {
            let mut all = BankCounts::default();
            banks.iter().for_each(|bank| all += bank.counts());
            subjects.push((name.clone(), all));
        }
        if let Some(one) = partitioned {
            subjects.push((one.policy.clone(), BankCounts { regions: one.regions, ..BankCounts::default() }));
        }
        for (name, counts) in subjects {
            let accesses: u64 = counts.regions.iter().map(|region| region.accesses).sum();
            for (part, region) in counts.regions.iter().take(4).enumerate() {
                let share = 4.0 * region.accesses as f64 / accesses.max(1) as f64;
                let rate = region.writebacks as f64 / region.accesses.max(1) as f64;
                let mut add = |case, value| rows.push(ReportRow::once(case, &name, value, "an even share", value));
                add(format!("2.14 accesses of part {part}, of a quarter"), share);
                add(format!("2.14 writebacks an access, part {part}"), rate);
            }
        }
    }
}
