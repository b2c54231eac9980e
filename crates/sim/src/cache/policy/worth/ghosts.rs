//! The lines that a set was last asked for, the most recent first, whether they are still in it or not.

use super::regions::{Kind, region};
use super::{AGE_MAX, Line, print, step};

/// Those of one set.
pub struct Ghosts {
    wait: u8,
    step: u8,
    /// How many are remembered.
    depth: usize,
    /// A hash of the number of each: they are looked through together.
    prints: Vec<u16>,
    all: Vec<Ghost>,
}

#[derive(Clone, Copy)]
struct Ghost {
    region: u16,
    line: Line,
}

/// What an access found among them.
pub struct Met {
    is_write: bool,
    /// What was known of the line, if it is there.
    before: Option<Line>,
    forgotten: Option<Ghost>,
}

impl Ghosts {
    /// Of a set of a kind with so many ways: eight times as many lines as it holds.
    pub fn of(ways: usize) -> Self {
        let (step, depth) = (step(ways), 8 * ways);
        Self { wait: step, step, depth, prints: Vec::with_capacity(depth), all: Vec::with_capacity(depth) }
    }

    /// An access to the line with this number, of which `now` is known from now on.
    pub fn meet(&mut self, number: u64, is_write: bool, now: Line) -> Met {
        self.grow_older();
        let print = print(number);
        let found = find(&self.prints, print);
        let is_full = self.all.len() == self.depth;
        let mut ghost = Ghost { region: region(number), line: now };
        if found.is_none() && !is_full {
            self.prints.push(print);
            self.all.push(ghost);
        }
        let place = found.unwrap_or(self.all.len() - 1);
        let old = self.all[place];
        let before = found.map(|_| old.line);
        if let Some(before) = before.filter(|_| !is_write) {
            (ghost.line.written_age, ghost.line.written_class) = (before.written_age, before.written_class);
        }
        self.prints.copy_within(..place, 1);
        self.prints[0] = print;
        self.all.copy_within(..place, 1);
        self.all[0] = ghost;
        Met { is_write, before, forgotten: (found.is_none() && is_full).then_some(old) }
    }

    fn grow_older(&mut self) {
        self.wait -= 1;
        if self.wait == 0 {
            self.wait = self.step;
            self.all.iter_mut().for_each(|ghost| ghost.line.grow_older());
        }
    }
}

/// The first place of `print`. Sixteen are compared at once.
fn find(prints: &[u16], print: u16) -> Option<usize> {
    let has = |some: &[u16]| some.iter().fold(false, |found, other| found | (*other == print));
    let at = prints.chunks(16).position(has)? * 16;
    prints[at..].iter().position(|other| *other == print).map(|more| at + more)
}

impl Met {
    /// The class in which the line was, and how old it was, if it came back by this access.
    pub fn again(&self, kind: Kind) -> Option<(u8, u8)> {
        let line = self.before?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ghosts: &mut Ghosts, number: u64) -> Met {
        ghosts.meet(number, false, Line::NEW)
    }

    /// Beyond 128 the one that was asked for longest ago is forgotten, and it had been written.
    #[test]
    fn the_oldest_is_forgotten() {
        let mut ghosts = Ghosts::of(16);
        ghosts.meet(7 << 20, true, Line { written_age: 0, written_class: 5, ..Line::NEW });
        (0..127).for_each(|number| assert!(read(&mut ghosts, number).lost(Kind::Used).is_none()));
        let lost = read(&mut ghosts, 500).lost(Kind::Written);
        assert_eq!(lost, Some((5, region(7 << 20))));
        assert!(read(&mut ghosts, 501).lost(Kind::Written).is_none(), "line 0 was only read");
    }

    /// A read between two writes does not hide the first from the second.
    #[test]
    fn a_write_comes_back_to_the_last_write() {
        let mut ghosts = Ghosts::of(16);
        ghosts.meet(1, true, Line { written_age: 0, written_class: 3, ..Line::NEW });
        for number in 2..9 {
            read(&mut ghosts, number);
        }
        read(&mut ghosts, 1);
        for number in 2..9 {
            read(&mut ghosts, number);
        }
        let met = ghosts.meet(1, true, Line::NEW);
        assert_eq!((met.again(Kind::Written), met.again(Kind::Used)), (Some((3, 4)), Some((0, 2))));
    }
}
