use super::*;
use ferrite_memory::planted::plant;

/// Blocks of two words that record usual places.
const BLOCKS: u64 = 2 * GROUPS_PER_WORD * GROUP;
const SHIFT: u64 = 7 * PAGE;

fn place(block: u64) -> u64 {
    block * PAGE + SHIFT
}

/// A map without extents, whose block `n` is block `n` of the data stream.
fn filled() -> BlockMap {
    let map = BlockMap::new(BLOCKS).expect("memory");
    map.grow(BLOCKS).expect("memory");
    (0..BLOCKS).for_each(|index| map.set(index, MapEntry::of(index as u32)));
    map.find_groups(BLOCKS, place);
    map
}

fn is_usual(map: &BlockMap, index: u64) -> bool {
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
    map.unlock(3, MapEntry::of(5000));
    let entries: Vec<MapEntry> = (0..GROUP).map(|index| MapEntry::of(5000 + index as u32)).collect();
    map.group(0, &entries, place);
    assert!(!is_usual(&map, 3), "a run, and not the usual place");
    let entries: Vec<MapEntry> = (0..GROUP).map(|index| MapEntry::of(index as u32)).collect();
    map.group(0, &entries, place);
    assert!(is_usual(&map, 3), "all are back");
}

/// A copy made in between may hold any bytes.
#[test]
fn b3_who_left_and_came_back_was_away() {
    let map = filled();
    let usual = map.usual(Span::new(3 * PAGE, PAGE)).expect("a disk that was filled in order");
    assert!(map.is_still(&usual));
    map.unlock(BLOCKS - 1, map.lock(BLOCKS - 1));
    assert!(map.is_still(&usual), "others are none of its business");
    map.unlock(3, map.lock(3));
    assert!(!map.is_still(&usual));
    let entries: Vec<MapEntry> = (0..GROUP).map(|index| MapEntry::of(index as u32)).collect();
    map.group(0, &entries, place);
    assert!(is_usual(&map, 3) && !map.is_still(&usual), "the group is back, and was gone");
}

/// MU1, MU2: a writer that records usual places checks each group. A block that moves at the same time is seen, whether
/// its own writer clears the group or another writer cleared it and has yet to change the word.
#[test]
fn mu2_a_block_that_moves_meanwhile_is_seen() {
    let map = filled();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let entries: Vec<MapEntry> = (0..GROUP).map(|index| MapEntry::of(index as u32)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                map.group(0, &entries, place);
            }
        });
        let other = 2 * GROUP;
        let rest: Vec<MapEntry> = (other..other + GROUP).map(|index| MapEntry::of(index as u32)).collect();
        for round in 0..20_000 {
            if round % 2 == 0 {
                map.clear_group(other);
            }
            map.lock(other);
            let is_seen = (0..100).all(|_| !is_usual(&map, other));
            map.unlock(other, MapEntry::of(other as u32));
            map.group(other, &rest, place);
            assert!(is_seen || stop.swap(true, Ordering::Relaxed), "a locked block is said to lie where it lay");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Calls `each` with every order of the steps of threads of which thread `n` has `left[n]`.
fn every_order(left: &mut [usize], order: &mut Vec<usize>, each: &mut dyn FnMut(&[usize])) {
    if left.iter().all(|steps| *steps == 0) {
        return each(order);
    }
    for thread in 0..left.len() {
        if left[thread] > 0 {
            left[thread] -= 1;
            order.push(thread);
            every_order(left, order, each);
            order.pop();
            left[thread] += 1;
        }
    }
}

/// Returns true if no lookup finds the block at its usual place after a writer has left its group, and each earlier
/// lookup fails its second check. Another writer and two checkers run beside it, step by step in every order.
fn is_left_in_every_order() -> bool {
    let (map, span, mut is_left) = (filled(), Span::new(3 * PAGE, PAGE), true);
    for word in [USUAL, 0] {
        every_order(&mut [1, 2, 3, 3], &mut Vec::new(), &mut |order| {
            map.groups.row(0).store(place(0), Ordering::SeqCst);
            map.usual[0].store(word, Ordering::SeqCst);
            let (mut message, mut done, mut looks, mut has_left) = (Vec::new(), [0; 4], [(0, false); 4], false);
            for &thread in order {
                match (thread, done[thread]) {
                    (0, _) => {
                        map.leave_group(3);
                        has_left = true;
                    }
                    (1, 0) => _ = map.clear_group(5),
                    (1, _) => map.clear_usual(5),
                    (_, 0) => looks[thread].0 = map.begin_check(0),
                    (_, 1) => looks[thread].1 = map.are_usual(0),
                    _ if looks[thread].1 => map.set_usual(0, looks[thread].0),
                    _ => {}
                }
                done[thread] += 1;
                let found = map.usual(span);
                is_left &= found.is_none() || !has_left;
                message.extend(found);
            }
            is_left &= message.iter().all(|usual| !map.is_still(usual));
        });
    }
    is_left
}

#[test]
fn mu1_mu2_in_every_order_a_block_that_may_move_is_known_to() {
    assert!(is_left_in_every_order());
}

#[test]
fn canaries_a_writer_that_trusts_others_and_a_look_that_is_not_noted_are_found() {
    for bug in
        ["block: writer leaves the word to the writer that cleared the group", "block: look at groups is not noted"]
    {
        let planted = plant(bug);
        let is_left = is_left_in_every_order();
        drop(planted);
        assert!(!is_left, "{bug}");
    }
}
