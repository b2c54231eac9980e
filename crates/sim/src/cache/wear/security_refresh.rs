//! Security refresh: in each round line `n` is at place `n ^ key`. So what a place endures is a convolution over XOR of
//! how often each key was drawn with how often each line is written, which the Walsh-Hadamard transform gives at once.

use super::{Random, Rounds, Wear, last_survived};

pub fn runs(wear: &Wear, writes: &[u64]) -> f64 {
    let places = writes.len().next_power_of_two();
    let rounds = Rounds::of(wear, places, writes);
    let mut spectrum = vec![0_i128; places];
    for (value, count) in spectrum.iter_mut().zip(writes) {
        *value = i128::from(*count);
    }
    transform(&mut spectrum);
    let limit = rounds.limit(wear);
    let worst = |count: u64| worn(wear, &spectrum, count).iter().map(|sum| rounds.worn(*sum, count)).max().unwrap_or(0);
    let alive = last_survived(rounds.most(wear), limit, worst);
    let (now, then) = (worn(wear, &spectrum, alive), worn(wear, &spectrum, alive + 1));
    let part = |(now, then): (&u128, &u128)| {
        let left = limit.saturating_sub(rounds.worn(*now, alive));
        left as f64 / rounds.worn(then - now, 1) as f64
    };
    let part = now.iter().zip(&then).map(part).fold(1.0, f64::min);
    rounds.runs(alive as f64 + part)
}

/// For each place the sum, over so many rounds, of how often a run writes the line that was there.
fn worn(wear: &Wear, spectrum: &[i128], rounds: u64) -> Vec<u128> {
    let places = spectrum.len();
    let (mut drawn, mut random) = (vec![0_i128; places], Random(wear.seed));
    for _ in 0..rounds {
        drawn[random.next() as usize & (places - 1)] += 1;
    }
    transform(&mut drawn);
    drawn.iter_mut().zip(spectrum).for_each(|(one, other)| *one *= other);
    transform(&mut drawn);
    drawn.into_iter().map(|sum| (sum / places as i128) as u128).collect()
}

/// Walsh and Hadamard's; twice is times the length.
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
