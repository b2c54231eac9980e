use super::*;

/// A signal handler that is refused leaves the turn to the thread that it interrupted.
#[test]
fn a_turn_is_taken_until_who_took_it_ends_it() {
    let turn = AskTurn::take();
    assert!(turn.is_some());
    (0..2).for_each(|again| assert!(AskTurn::take().is_none(), "{again}"));
    drop(turn);
    assert!(AskTurn::take().is_some());
}
