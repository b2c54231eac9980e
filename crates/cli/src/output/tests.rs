use super::*;

#[test]
fn what_is_told_does_nothing_to_a_terminal() {
    let mut message = Vec::new();
    let name = "\u{1b}[2J\u{9b}31mné\t\u{7f}\r";
    line(&mut message, format_args!("{name}: not there\nsee above"));
    let expected = "\\u{1b}[2J\\u{9b}31mné\\t\\u{7f}\\r: not there\nsee above\n";
    assert_eq!(String::from_utf8_lossy(&message), expected);
}
