//! How soon lines of a class come back, and what keeping one is worth.
//!
//! For each class and each bucket of ages: how many lines came back at such an age, and how many were lost sight of.
//! The share of those still there that come back within a bucket gives the chances of what happens to a line of any
//! age. Its worth is the best that any plan "keep it until such an age" promises: what comes back, over the accesses
//! that it takes a way for (Gittins' index). So a line of a class that comes back late is worth more the older it is,
//! and one whose time is past is worth nothing.

/// Buckets of ages begin here, in steps of age.
const EDGES: [u16; BUCKETS + 1] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256];

const BUCKETS: usize = 20;

/// Powers of two: no fewer than there are buckets, and classes.
const ROW: usize = 32;
const CLASSES: usize = 128;

/// That of what cannot come back: nothing is learned of it, and it is worth nothing.
pub const NO_CLASS: u8 = CLASSES as u8 - 1;

/// What one line counts, so that counts fade smoothly.
const LINE: u32 = 16;

/// With each learning counts fade by this power of two.
const FADE: u32 = 5;

/// Lines of all classes together that every class is taken to have had besides its own.
const OTHERS: u64 = 8;

/// A chance of one.
const SURE: u64 = 1 << 20;

/// Worth is kept in parts of so many to the access.
const PARTS: u64 = 1 << 16;

/// What all lines are worth before anything is learned.
const AT_FIRST: u16 = 655;

static BUCKET_OF: [u8; 256] = bucket_of();

const fn bucket_of() -> [u8; 256] {
    let (mut of, mut age, mut bucket) = ([0; 256], 0, 0);
    while age < 256 {
        if age as u16 >= EDGES[bucket + 1] {
            bucket += 1;
        }
        of[age] = bucket as u8;
        age += 1;
    }
    of
}

/// The bucket of an age.
#[inline]
pub fn bucket(age: u8) -> usize {
    BUCKET_OF[usize::from(age)].into()
}

/// The counts of a class.
#[derive(Clone, Default)]
struct Counts {
    back: [u32; BUCKETS],
    lost: [u32; BUCKETS],
}

/// What came back and what was lost, by class.
pub struct Reuse {
    counts: Vec<Counts>,
    /// By class, then by bucket: as many as numbers of either can tell apart, so that no look-up needs a check.
    worth: Box<[[u16; ROW]; CLASSES]>,
}

impl Reuse {
    /// Of nothing yet.
    pub fn new() -> Self {
        let mut worth = Box::new([[AT_FIRST; ROW]; CLASSES]);
        worth[usize::from(NO_CLASS)] = [0; ROW];
        Self { counts: vec![Counts::default(); CLASSES], worth }
    }

    /// A line came back.
    #[inline]
    pub fn came_back(&mut self, class: u8, age: u8) {
        let count = &mut self.counts[usize::from(class)].back[bucket(age)];
        *count = count.saturating_add(LINE);
    }

    /// A line was lost sight of.
    #[inline]
    pub fn left(&mut self, class: u8, age: u8) {
        let count = &mut self.counts[usize::from(class)].lost[bucket(age)];
        *count = count.saturating_add(LINE);
    }

    /// What a line is worth.
    #[inline]
    pub fn worth(&self, class: u8, age: u8) -> u32 {
        self.worth[usize::from(class) % CLASSES][bucket(age) % ROW].into()
    }

    /// Makes what was counted into what lines are worth; then, with `fade`, what was counted counts for less.
    pub fn learn(&mut self, fade: bool) {
        self.counts[usize::from(NO_CLASS)] = Counts::default();
        let mut all = Counts::default();
        for counts in &self.counts {
            all.add(counts);
        }
        let common = all.chances(&[0; BUCKETS]);
        for (counts, worth) in self.counts.iter_mut().zip(self.worth.iter_mut()) {
            if counts.is_empty() {
                continue;
            }
            worth[..BUCKETS].copy_from_slice(&best_plans(&counts.chances(&common)));
            if fade {
                counts.back.iter_mut().chain(&mut counts.lost).for_each(|count| *count -= *count >> FADE);
            }
        }
    }
}

impl Counts {
    fn is_empty(&self) -> bool {
        self.back.iter().chain(&self.lost).all(|count| *count == 0)
    }

    fn add(&mut self, other: &Self) {
        self.back.iter_mut().zip(&other.back).for_each(|(sum, count)| *sum += count);
        self.lost.iter_mut().zip(&other.lost).for_each(|(sum, count)| *sum += count);
    }

    /// For each bucket the chance that a line which is there when it begins comes back within it. Who is lost within a
    /// bucket was there for half of it. `common` is the chance for all classes.
    fn chances(&self, common: &[u64; BUCKETS]) -> [u64; BUCKETS] {
        let (mut chances, mut later) = ([0; BUCKETS], 0);
        let others = OTHERS * u64::from(LINE);
        for bucket in (0..BUCKETS).rev() {
            let (back, lost) = (u64::from(self.back[bucket]), u64::from(self.lost[bucket]));
            let there = later + back + lost / 2;
            chances[bucket] = (back * SURE + others * common[bucket]) / (there + others);
            later += back + lost;
        }
        chances
    }
}

/// For each bucket what a line of that age is worth.
fn best_plans(chances: &[u64; BUCKETS]) -> [u16; BUCKETS] {
    let (mut back, mut accesses, mut there) = ([0; BUCKETS], [0; BUCKETS], SURE);
    for bucket in 0..BUCKETS {
        back[bucket] = there * chances[bucket] / SURE;
        there -= back[bucket];
        accesses[bucket] = u64::from(EDGES[bucket + 1] - EDGES[bucket]) * 4 * (back[bucket] / 2 + there);
    }
    std::array::from_fn(|from| {
        let (mut gain, mut cost, mut best) = (0, 1, (0, 1));
        for bucket in from..BUCKETS {
            gain += back[bucket];
            cost += accesses[bucket];
            if gain * best.1 > best.0 * cost {
                best = (gain, cost);
            }
        }
        (best.0 * PARTS / best.1) as u16
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three of four lines come back at age 10, one is lost then: the older, the more they are worth, until then; a
    /// moment later next to nothing.
    #[test]
    fn what_comes_back_late_is_worth_more_when_it_is_old() {
        let mut reuse = Reuse::new();
        for _ in 0..1000 {
            (0..3).for_each(|_| reuse.came_back(0, 10));
            reuse.left(0, 255);
        }
        reuse.learn(false);
        let worth: Vec<u32> = (0..=12).map(|age| reuse.worth(0, age)).collect();
        assert!(worth[..=8].is_sorted(), "{worth:?}");
        assert!(worth[10] > 5 * worth[0] && worth[12] * 50 < worth[10], "{worth:?}");
    }

    /// Worked out: all of 16 parts come back at age 0 (four accesses, half of that on average) with the chance of the
    /// class and of eight others like it: 16 / 144 in common, then (16 + 128 / 9) / 144.
    #[test]
    fn chances_lean_on_those_of_all_classes() {
        let mut all = Counts::default();
        all.back[0] = LINE;
        let common = all.chances(&[0; BUCKETS]);
        assert_eq!((common[0], common[1]), (SURE / 9, 0));
        assert_eq!(all.chances(&common)[0], (16 * SURE + 128 * (SURE / 9)) / 144);
    }

    #[test]
    fn counts_fade_and_what_was_learned_stays() {
        let mut reuse = Reuse::new();
        (0..64).for_each(|_| reuse.came_back(1, 0));
        reuse.learn(true);
        let (worth, count) = (reuse.worth(1, 0), reuse.counts[1].back[0]);
        assert_eq!(count, 64 * LINE - 64 * LINE / 32);
        assert!(worth > reuse.worth(0, 0), "the other class has seen nothing");
    }
}
