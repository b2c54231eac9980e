//! What LRU would have in a set.

/// The lines of one set under LRU, the most recent first.
#[derive(Clone)]
pub struct Shadow<const W: usize> {
    /// A hash of the number of each.
    prints: [u16; W],
    /// Which are dirty, a bit each.
    dirty: u64,
    used: u8,
}

/// What LRU does at an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lru {
    pub misses: bool,
    /// Whether a line becomes dirty that was not: it will have to be written back.
    pub dirties: bool,
}

impl<const W: usize> Shadow<W> {
    /// Nothing is in it.
    pub const EMPTY: Self = Self { prints: [0; W], dirty: 0, used: 0 };

    /// An access to a line with this hash, in a set of so many ways.
    pub fn access(&mut self, print: u16, is_write: bool, ways: u32) -> Lru {
        let used = usize::from(self.used);
        let found = self.prints[..used].iter().position(|other| *other == print);
        let place = found.unwrap_or(used.min(ways as usize - 1));
        let was_dirty = found.is_some() && self.dirty >> place & 1 != 0;
        if found.is_none() && used < ways as usize {
            self.used += 1;
        }
        self.prints.copy_within(..place, 1);
        self.prints[0] = print;
        let nearer = (1 << place) - 1;
        self.dirty = (self.dirty & !(nearer << 1 | 1)) | (self.dirty & nearer) << 1 | u64::from(was_dirty || is_write);
        Lru { misses: found.is_none(), dirties: is_write && !was_dirty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ways: 1 is written, 3 pushes it out, and when it is written again it becomes dirty again.
    #[test]
    fn it_is_lru() {
        let mut shadow = Shadow::<16>::EMPTY;
        let mut seen = |print, is_write| shadow.access(print, is_write, 2);
        let lru = |misses, dirties| Lru { misses, dirties };
        assert_eq!(seen(1, true), lru(true, true));
        assert_eq!(seen(2, false), lru(true, false));
        assert_eq!(seen(1, true), lru(false, false), "dirty already");
        assert_eq!(seen(2, false), lru(false, false));
        assert_eq!(seen(3, false), lru(true, false), "1 left");
        assert_eq!(seen(1, true), lru(true, true));
        assert_eq!(seen(3, true), lru(false, true));
    }
}
