//! A terminal that shows one screen after the other.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::outcome::Outcome;

/// Switches to the terminal's second screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor and switches back.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Moves to the first column of the first line.
const HOME: &str = "\x1b[H";
/// Clears the rest of a line.
const CLEAR_LINE: &str = "\x1b[K";
/// Clears the rest of the screen.
const CLEAR_BELOW: &str = "\x1b[J";

/// The size of a terminal that does not know its own.
const ROWS_AND_COLUMNS: (usize, usize) = (24, 80);

/// The screen, until it is dropped.
pub struct Screen {
    /// The settings to restore; `None` if no keys are read.
    keys: Option<Termios>,
}

impl Screen {
    /// Opens the screen on standard output; `None` if that is not a terminal. If standard input is a terminal too, keys
    /// are read at once and not shown.
    pub fn open() -> Option<Self> {
        let mut stdout = io::stdout();
        if !stdout.is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok();
        let keys = before.filter(|before| {
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            raw.special_codes[SpecialCodeIndex::VMIN] = 0;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &raw).is_ok()
        });
        let screen = Self { keys };
        stdout.write_all(ENTER.as_bytes()).and_then(|()| stdout.flush()).ok()?;
        Some(screen)
    }

    /// Shows `text`, as far as the terminal has room. Returns true if the terminal is still there.
    pub fn draw(&mut self, text: &str) -> Outcome<bool> {
        let size = tcgetwinsize(io::stdout()).ok().map(|size| (usize::from(size.ws_row), usize::from(size.ws_col)));
        let (rows, columns) = size.filter(|(rows, columns)| *rows > 0 && *columns > 0).unwrap_or(ROWS_AND_COLUMNS);
        super::super::write(&frame(text, rows, columns))
    }

    /// Waits for `interval`. Returns false if the user pressed q, or a signal came.
    pub fn pause(&mut self, interval: Duration) -> Outcome<bool> {
        if self.keys.is_none() {
            std::thread::sleep(interval);
            return Ok(true);
        }
        let stdin = io::stdin();
        let limit = Timespec { tv_sec: interval.as_secs() as i64, tv_nsec: interval.subsec_nanos().into() };
        let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut waited, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(format!("waiting for a key: {error}").into()),
            Ok(0) => return Ok(true),
            Ok(_) => {}
        }
        let mut keys = [0; 64];
        let pressed = rustix::io::read(&stdin, &mut keys).unwrap_or(0);
        // A terminal that is gone is readable and has no keys.
        Ok(pressed > 0 && !keys[..pressed].iter().any(|key| matches!(key, b'q' | b'Q')))
    }
}

/// Returns the characters that show `text` on a terminal of that size.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let mut frame = String::from(HOME);
    let mut lines: Vec<String> = text.lines().map(|line| line.chars().take(columns).collect()).collect();
    if lines.len() > rows {
        let hidden = lines.len() + 1 - rows;
        lines.truncate(rows.saturating_sub(1));
        lines.push(format!("... {hidden} more lines: make the window higher").chars().take(columns).collect());
    }
    frame += &lines.join(&format!("{CLEAR_LINE}\r\n"));
    frame + CLEAR_LINE + CLEAR_BELOW
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut stdout = io::stdout();
        let _ = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
        if let Some(before) = &self.keys {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests;
