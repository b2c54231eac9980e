use std::sync::Arc;

use super::super::budget::Budget;
use super::super::wire::Command;
use super::*;

/// N18: connections take from one budget beyond their own bytes, keep their own bytes when it is used up, and
/// return all of it.
#[test]
fn buffers_in_flight_are_bounded_by_the_budget() {
    let budget = Arc::new(Budget::default());
    let mut all: Vec<InFlight> = (0..6).map(|_| InFlight::new(Share::none(Arc::clone(&budget)))).collect();
    let piece = PIECE_BYTES as usize;
    let fill = |one: &mut InFlight| {
        let mut pieces = 0;
        while one.has_room(piece) {
            one.start(piece);
            pieces += 1;
        }
        pieces
    };
    let counts: Vec<usize> = all.iter_mut().map(fill).collect();
    let most = BYTES_MAX / piece;
    let own = OWN_BYTES / piece;
    // 64 MiB and the own bytes of those that take from them.
    assert_eq!(counts, [most, most, most, most, 8 + own, own], "pieces in flight");
    for _ in 0..counts[0] {
        let slot = all[0].add(request(), 1);
        assert!(all[0].end(slot, piece).is_some_and(|pending| pending.is_done()));
    }
    all[0].release_share();
    assert!(fill(&mut all[5]) > own, "the budget has room again");
}

/// N18: requests without a buffer are bounded too.
#[test]
fn requests_in_flight_are_counted() {
    let mut one = InFlight::new(Share::none(Arc::default()));
    let count = (0..).take_while(|_| one.has_room(0).then(|| one.start(0)).is_some()).count();
    assert_eq!(count, COUNT_MAX);
}

/// The pieces of a range are the range, in order, and a token names its piece.
#[test]
fn pieces_cover_a_range_once() {
    for (at, len) in [(0, 512), (512, 256 << 10), (256 << 10, 1 << 20), (3 << 20, 32 << 20), ((256 << 10) - 512, 1024)]
    {
        let (mut rest, mut count) = (Span::new(at, len), 0);
        while rest.len > 0 {
            let piece = first_piece(rest);
            assert_eq!(slot_and_offset(token(7, piece.at - at)), (7, piece.at - at));
            rest = Span::new(piece.at + piece.len, rest.len - piece.len);
            count += 1;
        }
        assert_eq!((rest.at, count), (at + len, count_pieces(Span::new(at, len))));
    }
}

fn request() -> Request {
    Request { cookie: 0, command: Command::Read, flags: 0, span: Span::new(0, 512) }
}
