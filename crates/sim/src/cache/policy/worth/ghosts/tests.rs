use super::*;

fn read(ghosts: &mut Ghosts, print: u16) -> GhostLookup {
    ghosts.meet(print, false, 1, 0)
}

/// Beyond 128 the line of the oldest access is forgotten, and that line had been written.
#[test]
fn the_oldest_is_forgotten() {
    let mut ghosts = Ghosts::of(16);
    ghosts.meet(700, true, 1, 5);
    (0..127).for_each(|print| assert_eq!(read(&mut ghosts, print).lost(ReuseKind::Used), NOTHING));
    let lost = read(&mut ghosts, 500).lost(ReuseKind::Written);
    assert_eq!(lost, cell(5, OLDEST));
    assert_eq!(read(&mut ghosts, 501).lost(ReuseKind::Written), NOTHING, "line 0 was only read");
}

/// After any sequence of accesses, the line of the oldest access is forgotten.
#[test]
fn what_is_asked_for_again_is_the_newest() {
    let (mut ring, mut list) = (RecencyRing::of(16), (0..16).rev().collect::<Vec<_>>());
    for n in 0..1000 {
        let place = if n % 3 == 0 { ring.oldest() } else { n * n % 16 };
        ring.renew(place);
        list.retain(|other| *other != place);
        list.insert(0, place);
        assert_eq!((ring.newest, ring.oldest()), (place, list[15]));
    }
}

/// A read between two writes does not hide the first from the second.
#[test]
fn a_write_comes_back_to_the_last_write() {
    let mut ghosts = Ghosts::of(16);
    ghosts.meet(1, true, 2, 3);
    for print in (2..9).chain([1]).chain(2..9) {
        read(&mut ghosts, print);
    }
    let met = ghosts.meet(1, true, 2, 3);
    assert_eq!((met.again(ReuseKind::Written), met.again(ReuseKind::Used)), (cell(3, 4), cell(1, 2)));
}
