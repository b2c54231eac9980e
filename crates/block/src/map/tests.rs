use super::*;

/// Blocks that one word tells of, twice.
const BLOCKS: u64 = 2 * GROUPS_TOGETHER * GROUP;
const SHIFT: u64 = 7 * PAGE;

fn place(block: u64) -> u64 {
    block * PAGE + SHIFT
}

/// A map without extents, whose block `n` is block `n` of the data stream.
fn filled() -> Map {
    let map = Map::new(BLOCKS);
    map.words.grow(BLOCKS);
    map.groups.grow(BLOCKS / GROUP + 1);
    (0..BLOCKS).for_each(|index| map.set(index, Entry::of(index as u32)));
    map.find_groups(BLOCKS, place);
    map
}

fn is_usual(map: &Map, index: u64) -> bool {
    let found = map.usual(Span::new(index * PAGE, PAGE)).map(|usual| usual.place);
    assert!(found.is_none_or(|found| found == place(index)), "block {index} at {found:?}");
    found.is_some()
}

#[test]
fn a_block_that_moves_takes_its_neighbours_from_their_usual_place() {
    let map = filled();
    assert!((0..BLOCKS).all(|index| is_usual(&map, index)));
    let end = BLOCKS / 2 * PAGE;
    assert_eq!(map.usual(Span::new(end - PAGE, 2 * PAGE)).map(|usual| usual.place), None, "it may go on elsewhere");
    map.lock(3);
    assert!(!is_usual(&map, 3) && !is_usual(&map, BLOCKS / 2 - 1), "whoever locks a block may move it");
    assert!(is_usual(&map, BLOCKS / 2), "others stay");
    map.unlock(3, Entry::of(5000));
    let entries: Vec<Entry> = (0..GROUP).map(|index| Entry::of(5000 + index as u32)).collect();
    map.group(0, &entries, place);
    assert!(!is_usual(&map, 3), "a run, and not the usual place");
    let entries: Vec<Entry> = (0..GROUP).map(|index| Entry::of(index as u32)).collect();
    map.group(0, &entries, place);
    assert!(is_usual(&map, 3), "all are back");
}

/// A copy that was made meanwhile may hold anything.
#[test]
fn b3_who_left_and_came_back_was_away() {
    let map = filled();
    let usual = map.usual(Span::new(3 * PAGE, PAGE)).expect("a disk that was filled in order");
    assert!(map.is_still(&usual));
    map.unlock(BLOCKS - 1, map.lock(BLOCKS - 1));
    assert!(map.is_still(&usual), "others are none of its business");
    map.unlock(3, map.lock(3));
    assert!(!map.is_still(&usual));
    let entries: Vec<Entry> = (0..GROUP).map(|index| Entry::of(index as u32)).collect();
    map.group(0, &entries, place);
    assert!(is_usual(&map, 3) && !map.is_still(&usual), "the group is back, and was gone");
}

/// MU1, MU2: who says that groups lie at their usual place looks at each; a block that moves meanwhile is not overlooked,
/// whether its own writer clears the group or finds it cleared by another, who has yet to change the word.
#[test]
fn mu2_a_block_that_moves_meanwhile_is_seen() {
    let map = filled();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let entries: Vec<Entry> = (0..GROUP).map(|index| Entry::of(index as u32)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                map.group(0, &entries, place);
            }
        });
        let other = 2 * GROUP;
        let rest: Vec<Entry> = (other..other + GROUP).map(|index| Entry::of(index as u32)).collect();
        for round in 0..20_000 {
            if round % 2 == 0 {
                map.clear_group_only(other);
            }
            map.lock(other);
            let is_seen = (0..100).all(|_| !is_usual(&map, other));
            map.unlock(other, Entry::of(other as u32));
            map.group(other, &rest, place);
            assert!(is_seen || stop.swap(true, Ordering::Relaxed), "a locked block is said to lie where it lay");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// MU1, MU2: the groups were looked at, then one writer cleared one, and before it comes to the word another locks a block.
#[test]
fn mu1_a_block_that_moves_after_the_look_is_seen_by_the_word() {
    let map = filled();
    map.unlock(GROUP, map.lock(GROUP));
    map.groups.row(1).store(place(GROUP), Ordering::SeqCst);
    let looked_at = map.look_at(0).expect("all lie where they lay");
    map.clear_group_only(3);
    map.lock(3);
    map.say_usual(0, looked_at);
    assert!(!is_usual(&map, 3), "a locked block is said to lie where it lay");
}
