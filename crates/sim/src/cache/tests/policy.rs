//! The rules of a policy are checked in a release too: a bank of sets with room for more ways would count nonsense.

use super::{CacheEvent, shape};
use crate::cache::policy::{LineMiss, Policy};
use crate::cache::{Bank, BankGeometry, NarrowSet, Rank, Set, WideSet};

/// A policy that always gives the same answers.
struct Says {
    victim: Rank,
    window: Option<u32>,
}

impl Policy for Says {
    fn victim<S: Set>(&mut self, _: &S, _: LineMiss) -> Rank {
        self.victim
    }

    fn window(&self) -> Option<u32> {
        self.window
    }
}

/// Returns the panic message of a bank of 12 ways.
fn message_of<S: Set>(victim: Rank, window: Option<u32>) -> Option<String> {
    let geometry = BankGeometry::of(shape(1, 12)).expect("a cache");
    let run = || Bank::<_, S>::of(geometry, Says { victim, window }).run(&[CacheEvent::read(1), CacheEvent::read(2)]);
    std::panic::catch_unwind(run).err().map(|panic| *panic.downcast::<String>().expect("words"))
}

#[test]
fn a_victim_that_no_set_has_is_told() {
    for message_of in [message_of::<NarrowSet>, message_of::<WideSet>] {
        assert_eq!((message_of(0, None), message_of(11, None)), (None, None));
        for victim in [12, 16, 64, Rank::MAX] {
            assert_eq!(message_of(victim, None), Some(format!("victim {victim} of 12 ways")));
        }
    }
}

#[test]
fn a_window_that_does_not_divide_the_ways_is_told() {
    for window in [1, 2, 3, 4, 6, 12] {
        assert_eq!(message_of::<NarrowSet>(11, Some(window)), None);
    }
    for window in [0, 5, 8, 24, 64] {
        let words = format!("a window of {window} ranks does not divide 12 ways");
        assert_eq!(message_of::<NarrowSet>(11, Some(window)), Some(words));
    }
}
