//! The result of an exploration.

use std::fmt;

use crate::crash::CrashPlace;
use crate::event::EventTrace;
use crate::explore::ExploreOptions;

/// The result of an exploration.
#[must_use = "a failure is in the report: call `assert_clean`"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Crash points explored.
    pub points: u64,
    /// Points with too many images to try all.
    pub sampled_points: u64,
    /// Images checked.
    pub images: u64,
    /// The first image that the checker refused.
    pub failure: Option<CrashFailure>,
}

impl CrashReport {
    /// Panics if there is a failure. The message says how to repeat it.
    #[track_caller]
    pub fn assert_clean(&self) -> &Self {
        if let Some(failure) = &self.failure {
            panic!("{failure}");
        }
        self
    }

    /// Panics if a point was sampled, because the exploration then proves nothing.
    #[track_caller]
    pub fn assert_exhaustive(&self) -> &Self {
        assert_eq!(self.sampled_points, 0, "crash points with too many images to try all: {self}");
        self
    }

    /// Returns the failure that a planted bug must cause. Panics if the report has no failure.
    #[track_caller]
    pub fn expect_failure(&self) -> &CrashFailure {
        self.failure.as_ref().unwrap_or_else(|| panic!("the planted bug was not found: {self}"))
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} images at {} crash points", self.images, self.points)?;
        if self.sampled_points > 0 {
            write!(f, " ({} of them sampled)", self.sampled_points)?;
        }
        Ok(())
    }
}

/// An image that the checker refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashFailure {
    /// The seed of the exploration.
    pub seed: u64,
    /// The position of the image, for [`ExploreOptions::only`].
    pub place: CrashPlace,
    /// The checker's error.
    pub error: String,
    /// The last events before the crash.
    pub events: Vec<String>,
}

impl CrashFailure {
    pub(crate) fn new(trace: &EventTrace, options: &ExploreOptions, place: CrashPlace, error: String) -> Self {
        let before = &trace.events[..place.point as usize];
        let last = before.len().saturating_sub(12);
        let events = before[last..].iter().map(ToString::to_string).collect();
        Self { seed: options.seed, place, error, events }
    }
}

impl fmt::Display for CrashFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashPlace { point, variant } = self.place;
        writeln!(f, "{}", self.error)?;
        writeln!(f, "seed {}, crash point {point}, variant {variant}; to replay it alone, run again with", self.seed)?;
        writeln!(
            f,
            "    ExploreOptions {{ seed: {}, only: Some(CrashPlace {{ point: {point}, variant: {variant} }}), .. }}",
            self.seed
        )?;
        writeln!(f, "the last events before the crash:")?;
        for event in &self.events {
            writeln!(f, "    {event}")?;
        }
        Ok(())
    }
}
