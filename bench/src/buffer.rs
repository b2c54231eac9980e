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
        let bytes: Vec<u8> = (0..len + LINE_BYTES).map(|i| (i % 251) as u8 | 1).collect();
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        Self { bytes, start, len }
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

    #[test]
    fn it_lies_on_a_line() {
        for len in [1, 64, 4096, 256 << 10] {
            let buffer = Buffer::new(len);
            assert_eq!((buffer.bytes().as_ptr() as usize % LINE_BYTES, buffer.bytes().len()), (0, len));
        }
    }
}
