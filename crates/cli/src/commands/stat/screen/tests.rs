//! What is written to a terminal.

use super::*;

#[test]
fn a_frame_fits_the_terminal_and_clears_what_was_there() {
    assert_eq!(frame("abcdef\nb\n", 2, 4), "\x1b[Habcd\x1b[K\r\nb\x1b[K\x1b[J");
    let frame_of_two = "\x1b[Ha\x1b[K\r\n... 2 more lines: make the window higher\x1b[K\x1b[J";
    assert_eq!(frame("a\nb\nc\n", 2, 80), frame_of_two);
    assert_eq!(frame("", 2, 4), "\x1b[H\x1b[K\x1b[J");
}
