//! The disk beside a disk of plain memory.

use ferrite_disk::RamDisk;

use super::*;
use crate::bench_random::BenchRandom;

#[test]
fn a_pattern_disk_holds_what_a_ram_disk_holds() {
    const BLOCKS: u64 = 16;
    let (ours, model) = (PatternDisk::new(BLOCKS * BLOCK), RamDisk::new(BLOCKS * BLOCK));
    let mut random = BenchRandom::new(7);
    for step in 0..4000_u64 {
        let at = random.below(BLOCKS * 8) * 512;
        let len = (1 + random.below(24)) * 512;
        let span = Span::new(at, len.min(BLOCKS * BLOCK - at));
        let mut bytes = vec![0; span.len as usize];
        match random.below(4) {
            0 => fill_with(&mut bytes, random.below(3).wrapping_sub(1)),
            1 => bytes.iter_mut().for_each(|byte| *byte = random.next() as u8),
            2 => {
                ours.trim(span, Access::Cached).expect("it fits");
                model.trim(span, Access::Cached).expect("it fits");
            }
            _ => fill_with(&mut bytes, step),
        }
        ours.write(span.at, &bytes, Access::Cached).expect("it fits");
        model.write(span.at, &bytes, Access::Cached).expect("it fits");
        let (mut read, mut expected) = (vec![1; (BLOCKS * BLOCK) as usize], vec![0; (BLOCKS * BLOCK) as usize]);
        ours.read(0, &mut read).expect("all of it");
        model.read(0, &mut expected).expect("all of it");
        assert!(read == expected, "step {step} of seed 7");
    }
    assert!(ours.read(BLOCKS * BLOCK, &mut [0; 512]).is_err());
}
