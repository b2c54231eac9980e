//! The alignment and content of buffers.

use super::*;

/// What one buffer wrote is compared with another one of the same length.
#[test]
fn it_lies_on_a_line_and_holds_the_same_each_time() {
    for len in [1, 64, 4096, 256 << 10] {
        let (buffer, other) = (CopyBuffer::new(len), CopyBuffer::new(len));
        assert_eq!((buffer.bytes().as_ptr() as usize % LINE_BYTES, buffer.bytes().len()), (0, len));
        assert!(buffer.bytes() == other.bytes());
    }
}
