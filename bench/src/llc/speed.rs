//! How fast each policy is simulated: a part of a program's events, in turn, on one core.

use std::time::Instant;

use ferrite_sim::cache::policy::{Lru, Partitioned, Policy, Protect, Worth};
use ferrite_sim::cache::{Bank, BankGeometry, CacheEvent, CacheShape, NarrowSet};

use super::WAYS;
use crate::Result;
use crate::options::Length;
use crate::report::rows;
use crate::rounds::{self, Subject};
use crate::session::Session;

/// What the report calls it.
pub const CASE: &str = "simulated on one core, ";
const UNIT: &str = "M/s";

/// Events that a bank is given at once.
const BATCH: usize = 1 << 18;

/// Events of a program at most.
const KEPT: usize = 8 << 20;

/// What the last level sees of a program first, by bank.
pub struct Kept {
    program: &'static str,
    geometry: BankGeometry,
    banks: Vec<Vec<CacheEvent>>,
    room: usize,
}

impl Kept {
    /// Nothing yet, of a program before a last level of this shape.
    ///
    /// # Errors
    /// When there is no such cache.
    pub fn of(program: &'static str, llc: CacheShape) -> Result<Self> {
        let geometry = BankGeometry::of(llc)?;
        Ok(Self { program, geometry, banks: vec![Vec::new(); geometry.banks()], room: KEPT })
    }

    /// Takes events, as long as there is room.
    pub fn feed(&mut self, events: &[CacheEvent]) {
        for event in &events[..events.len().min(self.room)] {
            self.banks[self.geometry.bank(event.line())].push(*event);
            self.room -= 1;
        }
    }

    /// Simulates them under each policy, in turn.
    ///
    /// # Errors
    /// When somebody interrupts it.
    pub fn measure(&self, session: &mut Session<'_>) -> Result<()> {
        let case = format!("{CASE}{}", self.program);
        let (protected, partitions) = (WAYS / 4, 4);
        let partitioned = Partitioned { partitions, ways: WAYS / partitions, protected: protected / partitions };
        let mut subjects = [
            Subject::new("lru", |_| Ok(self.rate(|| Lru { ways: WAYS }))),
            Subject::new("protect-0", |_| Ok(self.rate(|| Protect { ways: WAYS, protected: 0 }))),
            Subject::new("protect-4", |_| Ok(self.rate(|| Protect { ways: WAYS, protected }))),
            Subject::new("partitioned-4x4", |_| Ok(self.rate(|| partitioned))),
            Subject::new("worth", |_| Ok(self.rate(|| Worth::<NarrowSet, { WAYS as usize }>::new(self.geometry)))),
        ];
        let count = if session.options.length == Length::Full { 5 } else { 3 };
        let told = format!("{case}: speed");
        let series = rounds::run(&mut subjects, count, &mut || session.tell(&told))?;
        session.report.rows.extend(rows(&case, UNIT, &series, &series[0]));
        Ok(())
    }

    /// Million events a second.
    fn rate<P: Policy>(&self, policy: impl Fn() -> P) -> f64 {
        let mut banks: Vec<Bank<P>> = self.banks.iter().map(|_| Bank::new(self.geometry, policy())).collect();
        let began = Instant::now();
        for (bank, events) in banks.iter_mut().zip(&self.banks) {
            events.chunks(BATCH).for_each(|events| bank.run(events));
        }
        (KEPT - self.room) as f64 / 1e6 / began.elapsed().as_secs_f64()
    }
}
