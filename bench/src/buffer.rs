//! Buffers of requests: on a cache line's boundary and touched, so that no copy is slower for where its buffer lies.

const LINE_BYTES: usize = 64;

/// A buffer.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes of a pattern without long runs of one value.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + LINE_BYTES];
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        let mut buffer = Self { bytes, start, len };
        buffer.bytes_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8 | 1);
        buffer
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    /// Its bytes, to be read into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one buffer wrote is compared with another one of the same length.
    #[test]
    fn it_lies_on_a_line_and_holds_the_same_each_time() {
        for len in [1, 64, 4096, 256 << 10] {
            let (buffer, other) = (Buffer::new(len), Buffer::new(len));
            assert_eq!((buffer.bytes().as_ptr() as usize % LINE_BYTES, buffer.bytes().len()), (0, len));
            assert!(buffer.bytes() == other.bytes());
        }
    }
}
