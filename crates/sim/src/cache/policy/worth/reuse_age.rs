//! How long ago something was, the longer the more roughly.

/// Ages begin here, in steps: the last one of all. Each is a power of two wide, and no narrower than the one before.
pub const EDGES: [u16; AGES + 1] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256];

/// How many are told apart.
pub const AGES: usize = 20;

/// The last one.
pub const OLDEST: u16 = AGES as u16 - 1;

/// Bits of an age, with room for [`NEVER`].
pub const AGE_BITS: u32 = 5;

/// That of what has not been.
pub const NEVER: u16 = (1 << AGE_BITS) - 1;

/// How many ages, from the first on, are at most two to the so-manyth wide; not the last, which has no end. None before
/// the first, which those wrap to that are negative.
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

/// Steps of an age.
const fn width(age: u16) -> u32 {
    (EDGES[age as usize + 1] - EDGES[age as usize]) as u32
}

/// Ages below this one go on to the next at this time, if steps take so long, a power of two of at most 16: those that
/// are two steps wide with every second, and so on.
#[inline]
pub fn going_on(time: u16, step: u16) -> u16 {
    let halvings = time.trailing_zeros().wrapping_sub(step.trailing_zeros());
    NARROW[halvings as usize % 32]
}

/// The age of what was so many steps ago.
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
