//! The clock of the emulated speeds.

/// A counter that goes up evenly with time, the same on every processor.
pub trait Ticks: Send + Sync {
    /// The count now.
    fn now(&self) -> u64;

    /// The count once what was loaded before has arrived.
    fn now_after_copy(&self) -> u64;

    /// Returns when the count has reached `tick`.
    fn wait_until(&self, tick: u64);

    /// Ticks in a nanosecond.
    fn per_ns(&self) -> f64;

    /// What [`Ticks::now`] and [`Ticks::now_after_copy`] differ by with nothing between them.
    fn reading(&self) -> u64;
}
