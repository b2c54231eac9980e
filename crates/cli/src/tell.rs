//! What is told to people. Whoever reads it may have gone, as in `ferrite up | head -1`; that ends no server.

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
    let _ = writeln!(to, "{words}");
}
