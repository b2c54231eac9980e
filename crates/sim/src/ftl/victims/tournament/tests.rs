use super::*;

/// Blocks of three levels, taken in the order of a sort.
#[test]
fn they_are_taken_by_key_and_then_by_number() {
    let count = 3 * GROUP * GROUP / 2;
    let mut tournament = Tournament::new(count);
    let key = |block: usize| (block * 7919 % 50) as u16;
    for block in 0..count {
        let block_key = key(block);
        if block % 2 == 0 {
            tournament.set(FlashBlock(block as u32), block_key);
        } else {
            (1..=block_key).for_each(|step| tournament.raise(FlashBlock(block as u32), step));
        }
    }
    let mut expected: Vec<usize> = (0..count).filter(|block| key(*block) > 0).collect();
    expected.sort_by_key(|block| (u16::MAX - key(*block), *block));
    let taken: Vec<usize> = std::iter::from_fn(|| tournament.take()).map(|FlashBlock(block)| block as usize).collect();
    assert_eq!(taken, expected);
}
