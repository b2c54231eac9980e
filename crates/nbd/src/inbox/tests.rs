use super::*;

fn receive(inbox: &mut Inbox, from: &[u8], needed_bytes: usize) {
    inbox.space(needed_bytes)[..from.len()].copy_from_slice(from);
    inbox.received(from.len());
}

/// N3: a large payload grows the buffer to its size, and the memory is freed afterwards; no byte is lost.
#[test]
fn grows_for_a_payload_and_shrinks_back() {
    let mut inbox = Inbox::new(8);
    receive(&mut inbox, b"abcdefgh", 8);
    inbox.consume(5);
    receive(&mut inbox, b"ijklm", 20);
    assert_eq!(inbox.held(), b"fghijklm");
    assert!(inbox.is_enlarged());
    inbox.shrink();
    assert_eq!((inbox.held(), inbox.is_enlarged()), (&b"fghijklm"[..], false));
}

/// A full buffer whose front is used makes room by moving the rest to the front.
#[test]
fn moves_the_rest_down() {
    let mut inbox = Inbox::new(4);
    receive(&mut inbox, b"abcd", 1);
    inbox.consume(3);
    receive(&mut inbox, b"efg", 4);
    assert_eq!(inbox.held(), b"defg");
}
