use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;

use super::*;
use crate::tests::guest_rig::{GuestShape, space};

fn table(frames: u64) -> FrameTable {
    let shape = GuestShape { frames, ..GuestShape::default() };
    let memory = std::sync::Arc::new(LyingMemory::new(shape.memory_bytes(), Model::MAPPED));
    memory.store_word(shape.tag_at(), frames);
    FrameTable::recover(&space(memory, shape)).expect("zeros are free frames")
}

/// VR8: CLOCK passes pages that were used since it passed before, and takes neighbours along.
#[test]
fn the_hand_passes_used_pages_and_takes_neighbours() {
    let mut table = table(8);
    for page in [10, 11, 12, 40, 50] {
        let frame = table.take_free().expect("free");
        table.set(frame, FrameContent::Truth(page));
    }
    let used = table.frame_of(40).expect("it has a frame");
    table.note_store(used);
    let pages = |chosen: &[FramedPage]| chosen.iter().map(|one| one.page).collect::<Vec<_>>();
    assert_eq!(pages(&table.choose(1)), [10, 11, 12]);
    assert_eq!(pages(&table.choose(1)), [50]);
    assert_eq!(pages(&table.choose(1)), [40], "the second round takes the one that was used");
    assert_eq!(pages(&table.choose(3)), [0; 0]);
}

#[test]
fn copies_are_reused_in_the_order_of_their_displacement() {
    let mut table = table(4);
    for page in [1, 2, 3] {
        let frame = table.take_free().expect("free");
        table.set(frame, FrameContent::Truth(page));
    }
    let frames = [3, 1, 2].map(|page| (table.frame_of(page).expect("a frame"), page));
    frames.iter().for_each(|(frame, page)| table.set(*frame, FrameContent::Copy(*page)));
    table.set(frames[0].0, FrameContent::Truth(3));
    assert_eq!(table.oldest_copies(9), [frames[1].0, frames[2].0]);
    assert_eq!((table.free(), table.copies(), table.truths()), (1, 2, 1));
}
