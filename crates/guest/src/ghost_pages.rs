//! Pages that lost their frames a short while ago: what a guest with more memory would have kept.

use std::collections::{HashMap, VecDeque};

/// The pages whose copies were dropped last.
#[derive(Debug, Default)]
pub(crate) struct GhostPages {
    order: VecDeque<(u64, u64)>,
    /// The number of the last time at which a page lost its frame.
    pages: HashMap<u64, u64>,
    count: u64,
}

impl GhostPages {
    /// Notes that `page` lost its frame. Remembers `most` pages at most.
    pub fn note(&mut self, page: u64, most: usize) {
        self.count += 1;
        self.pages.insert(page, self.count);
        self.order.push_back((page, self.count));
        while self.order.len() > most {
            let Some((page, number)) = self.order.pop_front() else { return };
            if self.pages.get(&page) == Some(&number) {
                self.pages.remove(&page);
            }
        }
    }

    /// Forgets `page`, which has a frame again. Returns true if it was remembered.
    pub fn take(&mut self, page: u64) -> bool {
        self.pages.remove(&page).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_that_lost_their_frames_last_are_remembered_once() {
        let mut ghosts = GhostPages::default();
        [1, 2, 1, 3].into_iter().for_each(|page| ghosts.note(page, 3));
        assert!(ghosts.take(1) && !ghosts.take(1));
        assert!(ghosts.take(2));
        (4..9).for_each(|page| ghosts.note(page, 3));
        assert!(!ghosts.take(3) && !ghosts.take(5) && ghosts.take(6));
    }
}
