//! How long a memory lives under the writebacks of a program that runs over and over.
//!
//! The memory is as large as the lines that the program writes. Each line endures a number of writes, and the first
//! line that reaches it ends the memory. Without wear levelling that is the line that is written most. With levelling,
//! lines change places after a number of writes (`period`), and the wear of a place is the sum over the lines that were
//! there.
//!
//! An endurance of 1e8 is a million rounds of the levelling, each of as many writes as the memory has lines, times the
//! period. Rounds are not replayed, but added at once. The endurance is not scaled down either: with a smaller
//! endurance fewer rounds would fit, and levelling would look worse than it is. Within a round a line stays at its
//! place and has its share of the round's writes; the sums are exact integers.

use crate::split_mix::SplitMix;

mod security_refresh;
mod start_gap;
#[cfg(test)]
mod tests;

/// A method of wear levelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levelling {
    /// A line stays where it is.
    None,
    /// A gap moves through the memory and shifts every line by one place a round (Qureshi et al., MICRO 2009).
    StartGap,
    /// Start-gap behind a fixed random permutation of the lines.
    RandomizedStartGap,
    /// Every round the lines move to their number XOR a new random key (Seong et al., ISCA 2010).
    SecurityRefresh,
}

impl Levelling {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::None, Self::StartGap, Self::RandomizedStartGap, Self::SecurityRefresh];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::StartGap => "start-gap",
            Self::RandomizedStartGap => "randomized-start-gap",
            Self::SecurityRefresh => "security-refresh",
        }
    }
}

/// A memory that wears.
#[derive(Clone, Copy, Debug)]
pub struct WearModel {
    /// The method of wear levelling.
    pub levelling: Levelling,
    /// Writes that a line endures.
    pub endurance: u64,
    /// Writes of the memory for each line that the levelling moves.
    pub period: u64,
    /// The seed of its random choices.
    pub seed: u64,
}

impl Default for WearModel {
    fn default() -> Self {
        Self { levelling: Levelling::None, endurance: 100_000_000, period: 100, seed: 1 }
    }
}

impl WearModel {
    /// Returns the same memory without levelling.
    pub fn unlevelled(self) -> Self {
        Self { levelling: Levelling::None, ..self }
    }

    /// Returns this memory with its own levelling, or with the paper's (randomized start-gap) if it has none.
    pub fn levelled(self) -> Self {
        let is_levelled = self.levelling != Levelling::None;
        Self { levelling: if is_levelled { self.levelling } else { Levelling::RandomizedStartGap }, ..self }
    }

    /// Returns how often the program can run until the first line fails; `writes` is how often one run writes each
    /// line, by address. The result is infinite for a program that writes nothing.
    pub fn runs(&self, writes: &[u64]) -> f64 {
        let Some(most) = writes.iter().max().filter(|most| **most > 0) else { return f64::INFINITY };
        match self.levelling {
            Levelling::None => self.endurance as f64 / *most as f64,
            Levelling::StartGap => start_gap::runs(self, writes),
            Levelling::RandomizedStartGap => start_gap::runs(self, &shuffled(writes, self.seed)),
            Levelling::SecurityRefresh => security_refresh::runs(self, writes),
        }
    }
}

/// The wear of each place after a whole number of rounds.
struct WearRounds {
    /// Writes of a round: as many as the memory has places, times the period.
    writes: u128,
    /// Writes of a run of the program.
    of_run: u128,
}

impl WearRounds {
    fn of(wear: &WearModel, places: usize, writes: &[u64]) -> Self {
        let of_run = writes.iter().map(|count| u128::from(*count)).sum();
        Self { writes: places as u128 * u128::from(wear.period.max(1)), of_run }
    }

    /// Returns the wear of a place after `rounds`, times the writes of a run: `sum` over the rounds of how often a run
    /// writes the line that was there, and one copy a round.
    fn worn(&self, sum: u128, rounds: u64) -> u128 {
        self.writes * sum + self.of_run * u128::from(rounds)
    }

    /// Returns the wear at which a line fails, on that scale.
    fn limit(&self, wear: &WearModel) -> u128 {
        self.of_run * u128::from(wear.endurance)
    }

    /// Returns a number of rounds that no memory survives: the average writes alone would reach the limit, even if half
    /// its places were free.
    fn most(&self, wear: &WearModel) -> u64 {
        2 * (wear.endurance / wear.period.max(1)) + 2
    }

    /// Returns the runs of the program in `rounds` rounds.
    fn runs(&self, rounds: f64) -> f64 {
        rounds * self.writes as f64 / self.of_run as f64
    }
}

/// Steps that interpolate between the bounds by their distances to the limit; further steps bisect, which always ends.
const FORETOLD: u32 = 24;

/// Returns the most whole rounds, below `most`, after which `worst` is under the limit; `worst` grows almost in
/// proportion to the rounds.
fn last_survived(most: u64, limit: u128, mut worst: impl FnMut(u64) -> u128) -> u64 {
    let beyond = |wear: u128| wear as f64 - limit as f64;
    let (mut alive, mut dead) = ((0, beyond(0)), (most, None));
    for look in 0.. {
        let between = dead.0 - alive.0;
        if between <= 1 {
            break;
        }
        let part = match dead.1 {
            Some(over) if look < FORETOLD => -alive.1 / (over - alive.1),
            _ => 0.5,
        };
        let at = alive.0 + ((between as f64 * part) as u64).clamp(1, between - 1);
        let wear = worst(at);
        // The bound that stays counts for half, so that both bounds approach.
        if wear < limit {
            (alive, dead.1) = ((at, beyond(wear).min(0.0)), dead.1.map(|over| over / 2.0));
        } else {
            (alive.1, dead) = (alive.1 / 2.0, (at, Some(beyond(wear).max(0.0))));
        }
    }
    alive.0
}

fn shuffled(writes: &[u64], seed: u64) -> Vec<u64> {
    let (mut shuffled, mut random) = (writes.to_vec(), SplitMix(seed));
    for at in (1..shuffled.len()).rev() {
        let other = random.below(at as u64 + 1);
        shuffled.swap(at, other as usize);
    }
    shuffled
}
