//! Lines for people. The reader of the lines may have exited, as in `ferrite up | head -1`, and the server continues. A
//! line may contain text of other users, such as file names, so control characters never reach the terminal.

use std::fmt;
use std::io::Write;

/// Prints a line on standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::line(std::io::stdout(), format_args!($($words)*)) };
}

/// Prints a line on standard error.
macro_rules! remark {
    ($($words:tt)*) => { $crate::output::line(std::io::stderr(), format_args!($($words)*)) };
}

pub fn line(mut to: impl Write, words: fmt::Arguments<'_>) {
    let _ = writeln!(to, "{}", shown(&words.to_string()));
}

/// Returns `text` with control characters written out as escapes; ends of lines stay.
pub fn shown(text: &str) -> String {
    let is_shown = |c: char| c == '\n' || !c.is_control();
    text.chars().map(|c| if is_shown(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

#[cfg(test)]
mod tests;
