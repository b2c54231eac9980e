//! The order of turns, and ratios of rounds.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;

/// Slices of one subject in a row would be disturbed differently from the slices of the next subject.
#[test]
fn subjects_take_turns_and_begin_in_turn() {
    let order = RefCell::new(String::new());
    let subject = |name: &'static str| {
        let order = &order;
        BenchSubject::new(name, move |_| {
            order.borrow_mut().push_str(name);
            Ok(1.0)
        })
    };
    let series = run(&mut [subject("a"), subject("b")], 3, &mut || Ok(())).expect("nothing fails");
    assert_eq!(*order.borrow(), "abbaabba");
    assert!(series.iter().all(|series| series.values.len() == 3));
}

/// What one leaves behind would be told as the other's.
#[test]
fn nobody_follows_the_same_one_in_every_round() {
    let order = RefCell::new(Vec::new());
    let subject = |name: usize| {
        let order = &order;
        BenchSubject::new(name.to_string(), move |_| {
            order.borrow_mut().push(name);
            Ok(1.0)
        })
    };
    run(&mut std::array::from_fn::<_, 9, _>(subject), 5, &mut || Ok(())).expect("nothing fails");
    let order = order.into_inner();
    for round in order.chunks(9) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 9, "each has a slice: {round:?}");
    }
    let before = order.windows(2).filter(|pair| pair[1] == 0).map(|pair| pair[0]);
    assert!(before.collect::<BTreeSet<_>>().len() >= 4, "{order:?}");
}

#[test]
fn ratios_are_taken_round_by_round() {
    let series = |values: &[f64]| Series { name: String::new(), values: values.to_vec() };
    let ratios = series(&[1.0, 20.0, 3.0]).over(&series(&[2.0, 40.0, 6.0]));
    assert_eq!((ratios.median(), ratios.range()), (0.5, (0.5, 0.5)));
    assert_eq!(series(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
}
