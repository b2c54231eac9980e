//! A trace that is passed on only while a load runs.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lines at the head of a trace, which are always passed on.
const HEAD_LINES: u64 = 3;

/// A writer that passes whole lines on to another one, or drops them.
pub struct TraceGate<W> {
    inner: W,
    /// Whether lines are passed on from the next one on.
    is_open: Arc<AtomicBool>,
    /// Whether this line is passed on.
    passes: bool,
    lines: u64,
}

impl<W> TraceGate<W> {
    /// A gate before `inner` that `is_open` opens behind the head of the trace.
    pub fn new(inner: W, is_open: Arc<AtomicBool>) -> Self {
        Self { inner, is_open, passes: true, lines: 0 }
    }
}

impl<W: Write> Write for TraceGate<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.passes {
                self.inner.write_all(part)?;
            }
            if part.ends_with(b"\n") {
                self.lines += 1;
                self.passes = self.lines < HEAD_LINES || self.is_open.load(Ordering::Relaxed);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
