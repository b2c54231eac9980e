//! The drawn shares beside the law.

use std::collections::HashSet;

use super::*;

#[test]
fn hot_blocks_get_the_share_of_the_law() {
    const COUNT: u32 = 10_000;
    for (theta, hottest) in [(0.0, 1000), (0.5, 1000), (0.9, 1000), (0.9, 1), (0.9, 10)] {
        let zipf = ZipfBlocks::new(COUNT, theta, 3);
        let hot: HashSet<u32> = zipf.blocks[..hottest].iter().copied().collect();
        let mut random = BenchRandom::new(4);
        let draws = 100_000;
        let hits = (0..draws).filter(|_| hot.contains(&zipf.draw(&mut random))).count();
        let weight = |count: usize| (1..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let (share, law) = (hits as f64 / f64::from(draws), weight(hottest) / weight(COUNT as usize));
        assert!((share - law).abs() < 0.015, "theta {theta}, {hottest}: {share} instead of {law} (seeds 3 and 4)");
    }
}

#[test]
fn each_block_has_one_rank() {
    let zipf = ZipfBlocks::new(1000, 0.5, 9);
    assert_eq!(zipf.blocks.iter().collect::<HashSet<_>>().len(), 1000);
}
