//! Rounds, in which the subjects of one case are measured in turn.

use std::time::{Duration, Instant};

use crate::Result;

/// A subject of a case: a name, and a function that measures one short slice.
pub struct BenchSubject<'a> {
    /// The name in the report.
    pub name: String,
    /// Measures the slice of this number, and returns its value.
    pub slice: Box<dyn FnMut(u64) -> Result<f64> + 'a>,
}

impl<'a> BenchSubject<'a> {
    /// A subject called `name`.
    pub fn new(name: impl Into<String>, slice: impl FnMut(u64) -> Result<f64> + 'a) -> Self {
        Self { name: name.into(), slice: Box::new(slice) }
    }
}

/// The slices of one subject, one a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name of the subject.
    pub name: String,
    /// The values of the slices.
    pub values: Vec<f64>,
}

/// Runs `rounds` rounds, and one before them that is not counted. In each, every subject has one slice, another subject
/// begins, and subjects follow each other in another order: work that a subject leaves to the kernel, such as a journal to be
/// written, must not always count for the same next one. `after_slice` is called after every slice.
pub fn run(
    subjects: &mut [BenchSubject<'_>],
    rounds: usize,
    after_slice: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<Series>> {
    let mut series: Vec<Series> =
        subjects.iter().map(|subject| Series { name: subject.name.clone(), values: Vec::new() }).collect();
    let count = subjects.len();
    let strides: Vec<usize> = (1..count.max(2)).filter(|stride| divisor(*stride, count) == 1).collect();
    for round in 0..=rounds {
        let stride = strides[round % strides.len()];
        for turn in 0..count {
            let which = (round + turn * stride) % count;
            let value = (subjects[which].slice)((round * count + turn) as u64)?;
            after_slice()?;
            if round > 0 {
                series[which].values.push(value);
            }
        }
    }
    Ok(series)
}

/// Nanoseconds of an update, the mean over about `time` and at least one batch: the clock is read behind each batch of
/// updates.
pub fn mean_ns(time: Duration, batch: u64, mut update: impl FnMut() -> Result<()>) -> Result<f64> {
    let (start, mut updates) = (Instant::now(), 0);
    while updates == 0 || start.elapsed() < time {
        (0..batch).try_for_each(|_| update())?;
        updates += batch;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / updates as f64)
}

/// The greatest number that divides both.
fn divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { divisor(other, one % other) }
}

impl Series {
    /// The median.
    pub fn median(&self) -> f64 {
        quantile(&self.values, 0.5)
    }

    /// The ratio of each value to the value of `beside` in the same round.
    pub fn over(&self, beside: &Self) -> Self {
        let values = self.values.iter().zip(&beside.values).map(|(mine, theirs)| mine / theirs).collect();
        Self { name: self.name.clone(), values }
    }

    /// The values below and above which a tenth of the values are; of fewer than ten, the least and the greatest.
    pub fn range(&self) -> (f64, f64) {
        let tenth = if self.values.len() < 10 { 0.0 } else { 0.1 };
        (quantile(&self.values, tenth), quantile(&self.values, 1.0 - tenth))
    }
}

/// The value below which the part `part`, from 0 to 1, of `values` are.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = part * sorted.len().saturating_sub(1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests;
