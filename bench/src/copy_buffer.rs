//! Buffers of requests, aligned to cache lines and touched, so that no copy depends on where its buffer lies.

const LINE_BYTES: usize = 64;

/// A buffer of a request.
#[derive(Debug)]
pub struct CopyBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl CopyBuffer {
    /// `len` bytes of a pattern without long runs of one value.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + LINE_BYTES];
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        let mut buffer = Self { bytes, start, len };
        buffer.bytes_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8 | 1);
        buffer
    }

    /// The bytes of the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    /// The bytes of the buffer, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests;
