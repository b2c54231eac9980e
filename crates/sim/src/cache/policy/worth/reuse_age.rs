//! Ages of lines in classes: the older, the coarser.

/// The first step of each age, and the end of the last. Each age is a power of two wide, and no narrower than the one
/// before.
pub const EDGES: [u16; AGES + 1] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256];

/// The number of ages.
pub const AGES: usize = 20;

/// The last age.
pub const OLDEST: u16 = AGES as u16 - 1;

/// Bits of an age, including [`NEVER`].
pub const AGE_BITS: u32 = 5;

/// The age of an event that has not happened.
pub const NEVER: u16 = (1 << AGE_BITS) - 1;

/// For each exponent `e`, the number of ages from the first on that are at most 2^e wide, without the last, which has
/// no end. The entries for negative exponents, which wrap, are 0.
const NARROW: [u16; 32] = {
    let (mut narrow, mut bits) = ([0; 32], 0);
    while bits <= u16::BITS as usize {
        while narrow[bits] < OLDEST && width(narrow[bits]) <= 1 << bits {
            narrow[bits] += 1;
        }
        bits += 1;
    }
    narrow
};

/// Returns the steps of an age.
const fn width(age: u16) -> u32 {
    (EDGES[age as usize + 1] - EDGES[age as usize]) as u32
}

/// Returns the age below which ages advance at this time, if a step takes `step` accesses, a power of two of at most
/// 16. Ages of two steps advance with every second step, and so on.
#[inline]
pub fn advancing_below(time: u16, step: u16) -> u16 {
    let halvings = time.trailing_zeros().wrapping_sub(step.trailing_zeros());
    NARROW[halvings as usize % 32]
}

/// Returns the age of an event that was `steps` steps ago.
#[inline]
pub fn after(steps: u32) -> u16 {
    AFTER[steps.min(255) as usize].into()
}

static AFTER: [u8; 256] = {
    let (mut after, mut steps, mut age) = ([0; 256], 0, 0);
    while steps < 256 {
        if steps as u16 >= EDGES[age + 1] {
            age += 1;
        }
        after[steps] = age as u8;
        steps += 1;
    }
    after
};

#[cfg(test)]
mod tests;
