//! What is written to a terminal.

use super::*;

#[test]
fn a_frame_fits_the_terminal_and_clears_what_was_there() {
    assert_eq!(frame("abcdef\nb\nc\n", 2, 4), "\x1b[Habcd\x1b[K\r\nb\x1b[K\x1b[J");
    assert_eq!(frame("", 2, 4), "\x1b[H\x1b[K\x1b[J");
}
