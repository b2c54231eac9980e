//! The lines that a set was last asked for, the most recent first, whether they are still in it or not.

use super::regions::{Kind, region};
use super::{AGE_MAX, Line, STEP};

/// How many are remembered: eight times what a set of sixteen ways holds.
const DEPTH: usize = 128;

/// Those of one set.
pub struct Ghosts {
    wait: u8,
    all: Vec<Ghost>,
}

#[derive(Clone, Copy)]
struct Ghost {
    /// A hash of the line's number.
    print: u16,
    region: u16,
    line: Line,
}

/// What an access found among them.
pub struct Met {
    is_write: bool,
    /// How many were asked for since this one, and what was known of it, if it is there.
    before: Option<(usize, Line)>,
    forgotten: Option<Ghost>,
}

impl Default for Ghosts {
    fn default() -> Self {
        Self { wait: STEP, all: Vec::with_capacity(DEPTH) }
    }
}

impl Ghosts {
    /// An access to the line with this number, of which `now` is known from now on.
    pub fn meet(&mut self, number: u64, is_write: bool, now: Line) -> Met {
        self.grow_older();
        let print = (number.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48) as u16;
        let place = self.all.iter().position(|ghost| ghost.print == print);
        let before = place.map(|place| (place, self.all.remove(place).line));
        let forgotten = if self.all.len() == DEPTH { self.all.pop() } else { None };
        let mut line = now;
        if let Some((_, before)) = before.filter(|_| !is_write) {
            (line.written_age, line.written_class) = (before.written_age, before.written_class);
        }
        self.all.insert(0, Ghost { print, region: region(number), line });
        Met { is_write, before, forgotten }
    }

    fn grow_older(&mut self) {
        self.wait -= 1;
        if self.wait == 0 {
            self.wait = STEP;
            self.all.iter_mut().for_each(|ghost| ghost.line.grow_older());
        }
    }
}

impl Met {
    /// Whether LRU would not have had the line.
    pub fn is_miss_of_lru(&self, ways: u32) -> bool {
        self.before.is_none_or(|(place, _)| place >= ways as usize)
    }

    /// The class in which the line was, and how old it was, if it came back by this access.
    pub fn again(&self, kind: Kind) -> Option<(u8, u8)> {
        let (_, line) = self.before?;
        match kind {
            Kind::Used => Some((line.used_class, line.used_age)),
            Kind::Written => {
                (self.is_write && line.written_age < AGE_MAX).then_some((line.written_class, line.written_age))
            }
        }
    }

    /// The class and the region of a line that was forgotten and so has not come back.
    pub fn lost(&self, kind: Kind) -> Option<(u8, u16)> {
        let Ghost { region, line, .. } = self.forgotten?;
        match kind {
            Kind::Used => Some((line.used_class, region)),
            Kind::Written => (line.written_age < AGE_MAX).then_some((line.written_class, region)),
        }
    }
}
