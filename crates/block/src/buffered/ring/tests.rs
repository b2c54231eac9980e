use super::*;

fn fill(ring: &mut PageRing, page: u64, byte: u8) {
    match ring.get_mut(page) {
        Some(content) => content.fill(byte),
        None => ring.append(page).expect("room").fill(byte),
    }
}

#[test]
fn u2_what_is_being_written_does_not_change_and_readers_see_the_newer() {
    let mut ring = PageRing::new(4).expect("memory");
    fill(&mut ring, 7, 1);
    fill(&mut ring, 7, 2);
    assert_eq!((ring.used(), ring.get(7).expect("here")[0]), (1, 2));
    let plan = ring.plan(1);
    fill(&mut ring, 7, 3);
    fill(&mut ring, 7, 4);
    assert_eq!((ring.used(), ring.dirty(), ring.get(7).expect("here")[0]), (2, 1, 4));
    assert_eq!(ring.planned(plan[0]).expect("still to be written")[0], 2);
    ring.retire();
    assert_eq!((ring.used(), ring.get(7).expect("here")[0]), (1, 4));
    ring.plan(2);
    ring.retire();
    assert_eq!((ring.used(), ring.get(7)), (0, None));
}

#[test]
fn a_forgotten_page_is_not_written_in_any_of_its_versions() {
    let mut ring = PageRing::new(4).expect("memory");
    fill(&mut ring, 7, 1);
    fill(&mut ring, 8, 1);
    let plan = ring.plan(2);
    fill(&mut ring, 7, 2);
    ring.forget(7);
    assert_eq!((ring.planned(plan[0]), ring.get(7)), (None, None));
    assert!(ring.planned(plan[1]).is_some());
    ring.retire();
    assert_eq!((ring.plan(3), ring.dirty()), (vec![], 0));
}

/// U6: all that the ring can hold of it, wherever it lies.
#[test]
fn u6_what_is_refused_stays_and_nothing_else() {
    for begun in 0..4 {
        let mut ring = PageRing::new(4).expect("memory");
        (0..begun).for_each(|page| fill(&mut ring, page, 0));
        ring.plan(begun);
        ring.retire();
        (10..14).for_each(|page| fill(&mut ring, page, page as u8));
        let plan = ring.plan(begun + 4);
        [1, 3].into_iter().for_each(|refused: usize| ring.refuse(plan[refused].slot));
        ring.retire();
        assert_eq!((ring.used(), ring.dirty_among(0..99)), (2, vec![11, 13]), "{begun}");
        fill(&mut ring, 11, 1);
        assert_eq!(ring.used(), 2, "{begun}: it can be changed where it is");
        let plan = ring.plan(begun + 6);
        fill(&mut ring, 13, 2);
        plan.iter().for_each(|page| ring.refuse(page.slot));
        ring.retire();
        let left = [11, 13].map(|page| ring.get(page).expect("here")[PAGE - 1]);
        assert_eq!((ring.used(), left), (2, [1, 2]), "{begun}: the newest of each");
        ring.plan(begun + 8);
        ring.retire();
        assert_eq!((ring.used(), ring.dirty()), (0, 0), "{begun}");
    }
}

#[test]
fn slots_come_back_when_they_are_retired() {
    let mut ring = PageRing::new(3).expect("memory");
    for page in 0..30 {
        fill(&mut ring, page, page as u8);
        assert_eq!(ring.is_full(), ring.used() == 3);
        if ring.is_full() {
            assert!(ring.append(99).is_none());
            let (start, _) = ring.bounds();
            assert_eq!(ring.plan(start + 2).len(), 2);
            ring.retire();
        }
    }
    assert_eq!(ring.dirty_among(0..100).len() as u64, ring.dirty());
    assert_eq!(ring.dirty_among(29..30), [29]);
}
