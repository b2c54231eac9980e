//! Start-gap: in a ring of places, one more than there are lines, the free place moves back step by step. When it has
//! passed all lines, which is a round, each line has moved on by one place, and so has the free place. So a place
//! endures a line, then the line before it, and so on: prefix sums give these sums of neighbours for any number of
//! rounds.

use std::iter::once;

use super::{WearModel, WearRounds, last_survived};

pub fn runs(wear: &WearModel, writes: &[u64]) -> f64 {
    let rounds = WearRounds::of(wear, writes.len(), writes);
    let places = writes.len() + 1;
    let worn = RingSums::of(writes.iter().map(|count| rounds.worn((*count).into(), 1)));
    let limit = rounds.limit(wear);
    let worst = |count| (0..places).map(|place| worn.at(place, count)).max().unwrap_or(0);
    let alive = last_survived(rounds.most(wear), limit, worst);
    let part = |place: usize| {
        let left = limit.saturating_sub(worn.at(place, alive));
        let next = worn.at(place, alive + 1) - worn.at(place, alive);
        left as f64 / next as f64
    };
    let part = (0..places).map(part).fold(1.0, f64::min);
    rounds.runs(alive as f64 + part)
}

/// Prefix sums around the ring: the wear of each line in a round, including its copy, and nothing for the free place.
struct RingSums(Vec<u128>);

impl RingSums {
    fn of(wear: impl Iterator<Item = u128>) -> Self {
        let mut sum = 0;
        let sum_with = |wear| {
            sum += wear;
            sum
        };
        Self(once(0).chain(wear).chain(once(0)).map(sum_with).collect())
    }

    /// Returns the wear of `place` by its line and the lines before it, `count` in all, around the ring.
    fn at(&self, place: usize, count: u64) -> u128 {
        let places = self.0.len() as u64 - 1;
        let (whole, rest) = (u128::from(count / places), (count % places) as usize);
        let all = self.0[places as usize];
        let end = place + 1;
        let part = if rest <= end {
            self.0[end] - self.0[end - rest]
        } else {
            self.0[end] + all - self.0[self.0.len() - 1 - (rest - end)]
        };
        whole * all + part
    }
}
