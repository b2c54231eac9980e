//! How a disk is buffered.

use ferrite_memory::{Error, Result};

use super::ring::PAGE;

/// Buffers there are at most; each has a thread.
const BUFFERS_MAX: usize = 1024;

/// How a disk is buffered. The default is the paper's one buffer of 16 MiB with batching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferOptions {
    /// How many buffers.
    pub buffers: usize,
    /// Bytes of each, a multiple of 4096.
    pub buffer_bytes: u64,
    /// Bytes of neighbouring addresses that go to the same buffer, a multiple of 4096. A batch does not reach over them.
    pub stride_bytes: u64,
    /// Write neighbours together, so that they share one window of the guard.
    pub batch: bool,
    /// The part of a buffer from which on it is drained; at most 1.
    pub high: f64,
    /// The part down to which it is drained; below `high`.
    pub low: f64,
}

impl Default for BufferOptions {
    fn default() -> Self {
        Self { buffers: 1, buffer_bytes: 16 << 20, stride_bytes: 1 << 20, batch: true, high: 0.7, low: 0.1 }
    }
}

impl BufferOptions {
    /// Refuses what cannot work, and says what can.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::Unsupported(format!("write buffers: {why}")));
        if self.buffers == 0 || self.buffers > BUFFERS_MAX {
            return refuse(format!("{} buffers: give 1 to {BUFFERS_MAX}", self.buffers));
        }
        for (what, bytes) in [("size", self.buffer_bytes), ("stride", self.stride_bytes)] {
            if bytes == 0 || !bytes.is_multiple_of(PAGE as u64) {
                return refuse(format!("a {what} of {bytes} bytes: give a multiple of {PAGE}"));
            }
        }
        let is_ordered = self.low >= 0.0 && self.low < self.high && self.high <= 1.0;
        if !is_ordered {
            return refuse(format!("watermarks {} and {}: give 0 <= low < high <= 1", self.low, self.high));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
