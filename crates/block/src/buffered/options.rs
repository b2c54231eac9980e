//! Options of a buffered disk.

use ferrite_memory::{Error, Result};

use super::ring::PAGE;

/// The largest number of buffers. Each has a thread.
const BUFFERS_MAX: usize = 1024;

/// Options of a buffered disk. The default is the paper's one buffer of 16 MiB with batching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferOptions {
    /// The number of buffers, 1 to 1024.
    pub buffers: usize,
    /// Bytes of each buffer, a multiple of 4096.
    pub buffer_bytes: u64,
    /// Bytes of neighbouring addresses that go to the same buffer, a multiple of 4096. A batch does not cross strides.
    pub stride_bytes: u64,
    /// Write neighbours together, so that they share one window of the guard.
    pub batch: bool,
    /// The high watermark as a fraction of a buffer, at most 1. A fuller buffer is drained.
    pub high: f64,
    /// The low watermark as a fraction of a buffer, below `high`. Draining stops there.
    pub low: f64,
}

impl Default for BufferOptions {
    fn default() -> Self {
        Self { buffers: 1, buffer_bytes: 16 << 20, stride_bytes: 1 << 20, batch: true, high: 0.7, low: 0.1 }
    }
}

impl BufferOptions {
    /// Checks the options. The message of the error names the possible values.
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
