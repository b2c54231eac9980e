//! What exploring found.

use std::fmt;

use crate::crash::Place;
use crate::event::Trace;
use crate::explore::Options;

/// What exploring found.
#[must_use = "a failure is in the report: call `assert_clean`"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Crash points looked at.
    pub points: u64,
    /// Of them, those with too many images to try all.
    pub sampled_points: u64,
    /// Images judged.
    pub images: u64,
    /// The first image that was judged wrong.
    pub failure: Option<Failure>,
}

impl Report {
    /// Panics with the failure and how to replay it, if there is one.
    #[track_caller]
    pub fn assert_clean(&self) -> &Self {
        if let Some(failure) = &self.failure {
            panic!("{failure}");
        }
        self
    }

    /// Panics where a point had to be sampled: then nothing was proven.
    #[track_caller]
    pub fn assert_exhaustive(&self) -> &Self {
        assert_eq!(self.sampled_points, 0, "crash points with too many images to try all: {self}");
        self
    }

    /// The failure, where a planted bug must give one.
    #[track_caller]
    pub fn expect_failure(&self) -> &Failure {
        self.failure.as_ref().unwrap_or_else(|| panic!("the planted bug was not found: {self}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} images at {} crash points", self.images, self.points)?;
        if self.sampled_points > 0 {
            write!(f, " ({} of them sampled)", self.sampled_points)?;
        }
        Ok(())
    }
}

/// An image that was judged wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the options.
    pub seed: u64,
    /// Where, for [`Options::only`].
    pub place: Place,
    /// What the checker said.
    pub error: String,
    /// The last events before the crash.
    pub events: Vec<String>,
}

impl Failure {
    pub(crate) fn new(trace: &Trace, options: &Options, place: Place, error: String) -> Self {
        let before = &trace.events[..place.point as usize];
        let last = before.len().saturating_sub(12);
        let events = before[last..].iter().map(ToString::to_string).collect();
        Self { seed: options.seed, place, error, events }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { point, variant } = self.place;
        writeln!(f, "{}", self.error)?;
        writeln!(f, "seed {}, crash point {point}, variant {variant}; to replay it alone, run again with", self.seed)?;
        writeln!(
            f,
            "    Options {{ seed: {}, only: Some(Place {{ point: {point}, variant: {variant} }}), .. }}",
            self.seed
        )?;
        writeln!(f, "the last events before the crash:")?;
        for event in &self.events {
            writeln!(f, "    {event}")?;
        }
        Ok(())
    }
}
