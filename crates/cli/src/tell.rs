//! What is told to people. Whoever reads it may have gone, as in `ferrite up | head -1`; that ends no server. What is in it
//! may be anybody's, such as names of files: it tells a terminal nothing.

use std::fmt;
use std::io::Write;

/// A line on standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::tell::line(std::io::stdout(), format_args!($($words)*)) };
}

/// A line on standard error.
macro_rules! remark {
    ($($words:tt)*) => { $crate::tell::line(std::io::stderr(), format_args!($($words)*)) };
}

pub fn line(mut to: impl Write, words: fmt::Arguments<'_>) {
    let _ = writeln!(to, "{}", shown(&words.to_string()));
}

/// `text` with what would tell a terminal something written out, but for ends of lines, which are its own.
pub fn shown(text: &str) -> String {
    let is_shown = |c: char| c == '\n' || !c.is_control();
    text.chars().map(|c| if is_shown(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_does_nothing_to_a_terminal() {
        let mut told = Vec::new();
        let name = "\u{1b}[2J\u{9b}31mné\t\u{7f}\r";
        line(&mut told, format_args!("{name}: not there\nsee above"));
        let expected = "\\u{1b}[2J\\u{9b}31mné\\t\\u{7f}\\r: not there\nsee above\n";
        assert_eq!(String::from_utf8_lossy(&told), expected);
    }
}
