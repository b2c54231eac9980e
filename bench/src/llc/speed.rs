//! The speed of simulating each policy, on a part of a program's events and one core.

use std::time::Instant;

use ferrite_sim::cache::policy::{Lru, Partitioned, Policy, Protect, Worth};
use ferrite_sim::cache::{Bank, BankGeometry, CacheEvent, CacheShape, NarrowSet};

use super::WAYS;
use crate::Result;
use crate::options::Length;
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// The beginning of the cases.
pub const CASE: &str = "simulated on one core, ";

/// Events that a bank simulates at once.
const BATCH: usize = 1 << 18;

/// Events of a program at most.
const KEPT: usize = 8 << 20;

/// The first events of a program at the last level, by bank.
pub struct KeptEvents {
    program: &'static str,
    geometry: BankGeometry,
    banks: Vec<Vec<CacheEvent>>,
    room: usize,
}

impl KeptEvents {
    /// An empty list for a program before a last level of this shape.
    pub fn of(program: &'static str, llc: CacheShape) -> Result<Self> {
        let geometry = BankGeometry::of(llc)?;
        Ok(Self { program, geometry, banks: vec![Vec::new(); geometry.banks()], room: KEPT })
    }

    /// Adds events until the list is full.
    pub fn feed(&mut self, events: &[CacheEvent]) {
        for event in &events[..events.len().min(self.room)] {
            self.banks[self.geometry.bank(event.line())].push(*event);
            self.room -= 1;
        }
    }

    /// Simulates the events under each policy in turn.
    pub fn measure(&self, session: &mut BenchSession<'_>) -> Result<()> {
        let case = format!("{CASE}{}", self.program);
        let (protected, partitions) = (WAYS / 4, 4);
        let partitioned = Partitioned { partitions, ways: WAYS / partitions, protected: protected / partitions };
        let subjects = vec![
            BenchSubject::new("lru", |_| Ok(self.rate(|| Lru { ways: WAYS }))),
            BenchSubject::new("protect-0", |_| Ok(self.rate(|| Protect { ways: WAYS, protected: 0 }))),
            BenchSubject::new("protect-4", |_| Ok(self.rate(|| Protect { ways: WAYS, protected }))),
            BenchSubject::new("partitioned-4x4", |_| Ok(self.rate(|| partitioned))),
            BenchSubject::new("worth", |_| Ok(self.rate(|| Worth::<NarrowSet, { WAYS as usize }>::new(self.geometry)))),
        ];
        let count = if session.options.length == Length::Full { 5 } else { 3 };
        session.race(&Race { case: &case, unit: "M/s", rounds: count, slice_ms: 0, beside: "lru" }, subjects).map(drop)
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
