use super::*;

#[test]
fn the_seeds_are_traces_of_every_format() {
    let known = |seeds: Vec<Vec<u8>>, format| -> Vec<usize> {
        seeds.iter().map(|seed| read(seed, format).expect("a trace").len()).collect()
    };
    let named = BlockFormat::ALL.into_iter().flat_map(|(_, format)| known(seeds(Some(format)), Some(format)));
    assert_eq!(known(seeds(None), None), [3, 2, 2, 2, 3, 3], "formats without trims leave them out");
    assert_eq!(named.collect::<Vec<_>>(), [3, 2, 2, 2, 3, 3]);
}
