use ferrite_memory::pin;

use super::*;

#[test]
fn fb2_everything_added_is_found_once() {
    let free = FreeBlockSet::default();
    free.add(0..100);
    let mut taken = [0; 100];
    assert!(free.take(&mut taken));
    assert!(!free.take(&mut [0]));
    taken.sort_unstable();
    assert!(taken.iter().copied().eq(0..100));
}

/// FB2: a recall finds the blocks in the stashes of other threads, idle ones included.
#[test]
fn fb2_what_is_in_a_stash_is_found_when_it_is_recalled() {
    let free = FreeBlockSet::default();
    free.add(0..10);
    let mut taken = [0; 10];
    assert!(free.take(&mut taken));
    {
        let pin = pin();
        free.restock(&pin, &taken[..7]);
        taken[7..].iter().for_each(|block| free.free_one(&pin, *block));
    }
    assert!(free.count() == 10 && !free.take(&mut [0]), "all are in a stash");
    free.recall();
    assert!(free.take(&mut taken));
    taken.sort_unstable();
    assert!(taken.iter().copied().eq(0..10));
}

#[test]
fn taking_too_many_takes_none() {
    let free = FreeBlockSet::default();
    free.add(0..10);
    assert!(!free.take(&mut [0; 11]));
    assert_eq!(free.count(), 10);
}

#[test]
fn fb1_a_freed_block_comes_back_after_the_pins_of_before() {
    let free = FreeBlockSet::default();
    free.add(0..1);
    let mut taken = [9];
    assert!(free.take(&mut taken));
    free.free(taken.map(u64::from));
    let mut again = [9];
    assert!(free.take(&mut again));
    assert_eq!(again, [0]);
}
