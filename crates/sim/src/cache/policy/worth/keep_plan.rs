//! The worth of keeping lines, for several classes at once.
//!
//! The share of the remaining lines that come back at an age gives the chances of a line. Its worth is the best rate
//! that any plan "keep it until a certain age" promises: expected returns over expected accesses that it occupies a way
//! for (Gittins' index). So a line of a class that comes back late is worth more the older it is, and a line whose time
//! is past is worth nothing.
//!
//! Each class has a lane. Only operations that IEEE 754 rounds exactly are used, in the written order, so results are
//! the same with any vectors of a processor.

use super::reuse_age::{AGES, EDGES};

/// Classes that are computed at once.
pub const LANES: usize = 8;

/// A number for each class.
pub type ClassLanes = [f32; LANES];

/// A number for each age of each class.
pub type AgeTable = [ClassLanes; AGES];

/// A table of zeros.
pub const ZERO: AgeTable = [[0.0; LANES]; AGES];

/// Worth is stored in parts of this many to the access.
const PARTS: f32 = 65536.0;

/// The least cost of an age in accesses.
const COST_MIN: f32 = 1.0 / 1048576.0;

/// Returns for each age the chance that a line which is present at its beginning comes back within it. Counted are the
/// class's own lines, and `others` further lines that have the `common` chance. A line that is lost within an age was
/// present for half of it.
#[inline(always)]
pub fn chances(back: &AgeTable, lost: &AgeTable, others: f32, common: &AgeTable) -> AgeTable {
    let (mut chances, mut later) = (ZERO, [0.0; LANES]);
    for age in (0..AGES).rev() {
        for lane in 0..LANES {
            let (back, lost) = (back[age][lane], lost[age][lane]);
            let there = later[lane] + back + lost * 0.5;
            chances[age][lane] = (back + others * common[age][lane]) / (there + others);
            later[lane] += back + lost;
        }
    }
    chances
}

/// Returns for each age the worth of a line: the greatest rate of gain over cost, for all ages until which it may be
/// kept.
#[inline(always)]
pub fn best(chances: &AgeTable) -> [[u16; LANES]; AGES] {
    let (mut gains, mut costs, mut there) = (ZERO, ZERO, [1.0_f32; LANES]);
    for age in 0..AGES {
        let accesses = f32::from((EDGES[age + 1] - EDGES[age]) * 4);
        for lane in 0..LANES {
            let back = there[lane] * chances[age][lane];
            there[lane] -= back;
            gains[age][lane] = back;
            costs[age][lane] = accesses * (back * 0.5 + there[lane]) + COST_MIN;
        }
    }
    let mut worth = [[0; LANES]; AGES];
    for (from, worth) in worth.iter_mut().enumerate() {
        let (mut gain, mut cost, mut most) = ([0.0; LANES], [0.0; LANES], [0.0_f32; LANES]);
        for until in from..AGES {
            for lane in 0..LANES {
                gain[lane] += gains[until][lane];
                cost[lane] += costs[until][lane];
                let rate: f32 = gain[lane] / cost[lane];
                most[lane] = if rate > most[lane] { rate } else { most[lane] };
            }
        }
        worth.iter_mut().zip(most).for_each(|(worth, most)| *worth = (most * PARTS) as u16);
    }
    worth
}

#[cfg(test)]
mod tests;
