use super::*;

#[test]
fn fg7_each_append_has_another_turn_than_that_before() {
    let mut state = LeaseState::new(77, LeaseAccess::Append);
    for turn in 0..40 {
        assert_eq!((state.turn(), state.mode(77), state.mode(78)), (turn % TURNS, LeaseMode::Append, LeaseMode::Void));
        let at_work = state.to(LeaseMode::AtWork);
        assert_eq!((at_work.turn(), at_work.mode(77)), (turn % TURNS, LeaseMode::AtWork));
        state = at_work.finished();
    }
}
