//! What keeping lines is worth, of several classes at once.
//!
//! The share of the lines still there that come back at an age gives the chances of what happens to a line. Its worth is
//! the best that any plan "keep it until such an age" promises: what comes back, over the accesses that it takes a way
//! for (Gittins' index). So a line of a class that comes back late is worth more the older it is, and one whose time is
//! past is worth nothing.
//!
//! Each class has a lane. Only operations that IEEE 754 rounds exactly are used, each as it is written, so results are
//! the same whatever vectors a processor has.

use super::reuse_age::{AGES, EDGES};

/// Classes that are worked out at once.
pub const LANES: usize = 8;

/// A number of each class.
pub type ClassLanes = [f32; LANES];

/// A number of each age of each class.
pub type AgeTable = [ClassLanes; AGES];

/// One that stands for itself alone, where classes are worked out together.
pub const ZERO: AgeTable = [[0.0; LANES]; AGES];

/// Worth is kept in parts of so many to the access.
const PARTS: f32 = 65536.0;

/// Every age costs at least so many accesses.
const COST_MIN: f32 = 1.0 / 1048576.0;

/// For each age the chance that a line which is there when it begins comes back within it: of those that were counted,
/// and of so many `others`, which have the `common` chance. Who is lost within an age was there for half of it.
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

/// For each age what a line of it is worth: the most, over all ages that it may be kept until, of what is gained over
/// what it costs.
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
