//! The order in which SSDs get LEBs (CA5, CA15).

use ferrite_memory::planted::plant;

use super::*;

fn space(lebs: &[u32]) -> LebSpace {
    let mut space = LebSpace::default();
    for (ssd, count) in (0..).zip(lebs) {
        (1..=*count).for_each(|leb| space.add(LebPlace { ssd, leb }));
    }
    space
}

#[test]
fn ca15_inserts_of_equal_ssds_differ_by_one_at_most() {
    let mut space = space(&[100, 100, 100]);
    let mut inserts = [0_i32; 3];
    for round in 0..60 {
        let count = 1 + usize::from(round % 3 == 0);
        for place in space.take(count, |_| true).expect("there are free LEBs") {
            inserts[usize::from(place.ssd)] += 1;
        }
        let (least, most) = (inserts.iter().min().unwrap(), inserts.iter().max().unwrap());
        assert!(most - least <= 2, "{inserts:?}");
    }
}

#[test]
fn canary_ring_that_does_not_go_on_is_caught() {
    let caught = std::panic::catch_unwind(|| {
        let _bug = plant("cache: the ring does not go on");
        ca15_inserts_of_equal_ssds_differ_by_one_at_most();
    });
    assert!(caught.is_err());
}

#[test]
fn ca5_two_copies_are_on_different_ssds() {
    let mut space = space(&[3, 9]);
    while let Some(places) = space.take(2, |_| true) {
        assert_ne!(places[0].ssd, places[1].ssd);
    }
    assert_eq!((space.count(0), space.count(1)), (0, 6), "one SSD alone gives no pair");
    assert!(space.take(1, |ssd| ssd == 0).is_none());
}
