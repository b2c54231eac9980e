use ferrite_memory::planted::plant;

use super::*;

/// Returns true if each byte is accepted once. Four parts arrive in every order, and then each part again, or a
/// part that overlaps two.
fn every_byte_comes_once() -> bool {
    (0..256_u64).all(|order| {
        let (mut received, mut come) = (Received::new(100), [false; 4]);
        let comes_once = (0..4).map(|turn| order >> (2 * turn) & 3).all(|part| {
            let is_new = !std::mem::replace(&mut come[part as usize], true);
            let fits = received.add(Span::new(100 + part * 10, 10));
            fits == is_new && (part == 3 || !received.add(Span::new(105 + part * 10, 10)))
        });
        comes_once && received.reaches(140) == (come == [true; 4])
    })
}

#[test]
fn c2_every_byte_comes_once_in_whatever_order() {
    assert!(every_byte_comes_once());
}

#[test]
fn canary_bytes_that_come_twice_are_found() {
    let _bug = plant("nbd: bytes that arrived are accepted again");
    assert!(!every_byte_comes_once());
}

#[test]
fn what_comes_in_too_many_pieces_is_refused() {
    let mut received = Received::new(0);
    let count = (1..).take_while(|piece| received.add(Span::new(piece * 2, 1))).count();
    assert_eq!(count, APART_MAX);
}
