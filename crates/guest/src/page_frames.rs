//! The frames of pages: two loads find one.

/// Pages of a leaf. A small leaf wastes little where single pages of a large guest have frames.
const LEAF_PAGES: u64 = 64;
/// The number of no frame.
const NO_FRAME: u32 = u32::MAX;

/// The frames of the pages of one leaf.
#[derive(Debug)]
struct PageLeaf {
    used: u32,
    frames: [u32; LEAF_PAGES as usize],
}

/// The frame of each page that has one. Takes 32 bytes of DRAM for each MiB of the guest, and 264 for each leaf of 256 KiB
/// in which a page has a frame.
#[derive(Debug, Default)]
pub(crate) struct PageFrames {
    leaves: Vec<Option<Box<PageLeaf>>>,
    len: usize,
}

fn place(page: u64) -> (usize, usize) {
    ((page / LEAF_PAGES) as usize, (page % LEAF_PAGES) as usize)
}

impl PageFrames {
    /// Returns the number of pages with a frame.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the frame of `page`.
    #[inline]
    pub fn get(&self, page: u64) -> Option<u32> {
        let (leaf, at) = place(page);
        let frame = self.leaves.get(leaf)?.as_ref()?.frames[at];
        (frame != NO_FRAME).then_some(frame)
    }

    /// Gives `page` the frame `frame`, also if it has another one.
    pub fn insert(&mut self, page: u64, frame: u32) {
        let (leaf, at) = place(page);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = self.leaves[leaf]
            .get_or_insert_with(|| Box::new(PageLeaf { used: 0, frames: [NO_FRAME; LEAF_PAGES as usize] }));
        if leaf.frames[at] == NO_FRAME {
            leaf.used += 1;
            self.len += 1;
        }
        leaf.frames[at] = frame;
    }

    /// Removes the frame of `page`, if it has one.
    pub fn remove(&mut self, page: u64) {
        if self.get(page).is_none() {
            return;
        }
        let (leaf, at) = place(page);
        let slot = &mut self.leaves[leaf];
        let leaf = slot.as_mut().expect("found above");
        leaf.frames[at] = NO_FRAME;
        leaf.used -= 1;
        self.len -= 1;
        if leaf.used == 0 {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ferrite_crash::seed;

    use super::*;
    use crate::tests::seeded::TestChoices;

    #[test]
    fn frames_are_found_as_in_a_map() {
        println!("seed {}", seed());
        let (mut choices, mut table, mut model) = (TestChoices(seed()), PageFrames::default(), HashMap::new());
        for frame in 0..5000 {
            let page = choices.below(300) * (1 + choices.below(2) * 1_000_000);
            if choices.below(2) == 0 {
                table.insert(page, frame);
                model.insert(page, frame);
            } else {
                table.remove(page);
                model.remove(&page);
            }
            assert_eq!((table.get(page), table.len()), (model.get(&page).copied(), model.len()));
        }
        assert!((0..300).all(|page| table.get(page) == model.get(&page).copied()));
        model.keys().for_each(|page| table.remove(*page));
        assert!(table.len() == 0 && table.leaves.iter().all(Option::is_none), "empty leaves take no memory");
    }
}
