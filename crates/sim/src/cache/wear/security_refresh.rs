//! Security refresh: in each round line `n` is at place `n ^ key`. So the wear of a place is a convolution over XOR: of
//! how often each key was drawn with how often each line is written. The Walsh-Hadamard transform computes it at once.

use super::{SplitMix, WearModel, WearRounds, last_survived};

pub fn runs(wear: &WearModel, writes: &[u64]) -> f64 {
    let rounds = WearRounds::of(wear, writes.len().next_power_of_two(), writes);
    let mut memory = RefreshedMemory::of(wear, writes);
    let limit = rounds.limit(wear);
    let mut worst = |count: u64| memory.worn(count).iter().map(|sum| rounds.worn(*sum, count)).max().unwrap_or(0);
    let alive = last_survived(rounds.most(wear), limit, &mut worst);
    let (now, then) = (memory.worn(alive), memory.worn(alive + 1));
    let part = |(now, then): (&u128, &u128)| {
        let left = limit.saturating_sub(rounds.worn(*now, alive));
        left as f64 / rounds.worn(then - now, 1) as f64
    };
    let part = now.iter().zip(&then).map(part).fold(1.0, f64::min);
    rounds.runs(alive as f64 + part)
}

/// States that are kept to continue from: the first one, and two near the current search.
const KEPT: usize = 3;

struct RefreshedMemory {
    /// The transform of how often each line is written.
    spectrum: Vec<i128>,
    /// The kept states, ordered by rounds; the first has none.
    kept: Vec<DrawnKeys>,
}

/// How often each key was drawn in `rounds` rounds.
#[derive(Clone)]
struct DrawnKeys {
    rounds: u64,
    keys: Vec<u64>,
    random: SplitMix,
}

impl RefreshedMemory {
    fn of(wear: &WearModel, writes: &[u64]) -> Self {
        let places = writes.len().next_power_of_two();
        let mut spectrum: Vec<i128> = writes.iter().map(|count| i128::from(*count)).collect();
        spectrum.resize(places, 0);
        transform(&mut spectrum);
        let kept = vec![DrawnKeys { rounds: 0, keys: vec![0; places], random: SplitMix(wear.seed) }];
        Self { spectrum, kept }
    }

    /// Returns for each place the sum, over `rounds` rounds, of how often a run writes the line that was there.
    fn worn(&mut self, rounds: u64) -> Vec<u128> {
        let places = self.spectrum.len();
        let before = self.kept.partition_point(|drawn| drawn.rounds <= rounds);
        let mut drawn = self.kept[before - 1].clone();
        for _ in drawn.rounds..rounds {
            drawn.keys[drawn.random.next() as usize & (places - 1)] += 1;
        }
        let mut sums: Vec<i128> = drawn.keys.iter().map(|count| i128::from(*count)).collect();
        drawn.rounds = rounds;
        self.kept.insert(before, drawn);
        if self.kept.len() > KEPT {
            self.kept.remove(if before > 1 { 1 } else { KEPT });
        }
        transform(&mut sums);
        sums.iter_mut().zip(&self.spectrum).for_each(|(one, other)| *one *= other);
        transform(&mut sums);
        sums.into_iter().map(|sum| (sum / places as i128) as u128).collect()
    }
}

/// The Walsh-Hadamard transform; applied twice it multiplies by the length.
fn transform(values: &mut [i128]) {
    let mut half = 1;
    while half < values.len() {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}
