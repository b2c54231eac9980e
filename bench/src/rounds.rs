//! Subjects of one case, measured in turn.

use crate::Result;

/// What is measured, and how: one short slice at a call, given the number of the slice.
pub struct Subject<'a> {
    /// Its name in the report.
    pub name: String,
    /// Measures a slice.
    pub slice: Box<dyn FnMut(u64) -> Result<f64> + 'a>,
}

impl<'a> Subject<'a> {
    /// A subject.
    pub fn new(name: impl Into<String>, slice: impl FnMut(u64) -> Result<f64> + 'a) -> Self {
        Self { name: name.into(), slice: Box::new(slice) }
    }
}

/// The slices of one subject, one a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Whose.
    pub name: String,
    /// What was measured.
    pub values: Vec<f64>,
}

/// Runs `rounds` rounds in which every subject has one slice, each round begun by another subject; a round before
/// them is not counted. Nobody follows the same one in each round: what that one leaves to the kernel, a journal to be
/// written or files to be freed, would be told as its own. `after_slice` is called after every slice.
pub fn run(
    subjects: &mut [Subject<'_>],
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

/// The greatest number that divides both.
fn divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { divisor(other, one % other) }
}

impl Series {
    /// The median.
    pub fn median(&self) -> f64 {
        quantile(&self.values, 0.5)
    }

    /// The same with each value made another one.
    pub fn map(self, value: impl FnMut(f64) -> f64) -> Self {
        Self { values: self.values.into_iter().map(value).collect(), ..self }
    }

    /// Its values over those of `beside`, round by round.
    pub fn over(&self, beside: &Self) -> Self {
        let values = self.values.iter().zip(&beside.values).map(|(mine, theirs)| mine / theirs).collect();
        Self { name: self.name.clone(), values }
    }

    /// The values that a tenth lies below, and above; of fewer than ten, the least and the greatest.
    pub fn range(&self) -> (f64, f64) {
        let tenth = if self.values.len() < 10 { 0.0 } else { 0.1 };
        (quantile(&self.values, tenth), quantile(&self.values, 1.0 - tenth))
    }
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = part * sorted.len().saturating_sub(1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    /// One subject's slices in a row would meet another machine than the next one's.
    #[test]
    fn subjects_take_turns_and_begin_in_turn() {
        let order = RefCell::new(String::new());
        let subject = |name: &'static str| {
            let order = &order;
            Subject::new(name, move |_| {
                order.borrow_mut().push_str(name);
                Ok(1.0)
            })
        };
        let series = run(&mut [subject("a"), subject("b")], 3, &mut || Ok(())).expect("nothing fails");
        assert_eq!(*order.borrow(), "abbaabba");
        assert!(series.iter().all(|series| series.values.len() == 3));
    }

    /// What one leaves behind would be told as the other's.
    #[test]
    fn nobody_follows_the_same_one_in_every_round() {
        let order = RefCell::new(Vec::new());
        let subject = |name: usize| {
            let order = &order;
            Subject::new(name.to_string(), move |_| {
                order.borrow_mut().push(name);
                Ok(1.0)
            })
        };
        run(&mut std::array::from_fn::<_, 9, _>(subject), 5, &mut || Ok(())).expect("nothing fails");
        let order = order.into_inner();
        for round in order.chunks(9) {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 9, "each has a slice: {round:?}");
        }
        let before = order.windows(2).filter(|pair| pair[1] == 0).map(|pair| pair[0]);
        assert!(before.collect::<BTreeSet<_>>().len() >= 4, "{order:?}");
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let series = |values: &[f64]| Series { name: String::new(), values: values.to_vec() };
        let ratios = series(&[1.0, 20.0, 3.0]).over(&series(&[2.0, 40.0, 6.0]));
        assert_eq!((ratios.median(), ratios.range()), (0.5, (0.5, 0.5)));
        assert_eq!(series(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
    }
}
