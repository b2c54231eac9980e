//! What the disk takes and lends.

use super::*;

#[test]
fn every_request_succeeds_and_no_byte_is_kept() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(LENT_BYTES).expect("it grows");
    let disk = VoidDisk::new(1 << 40, file).expect("it is mapped");
    assert_eq!(disk.geometry().size, 1 << 40);
    disk.write(1 << 39, &[7; 4096], Access::Cached).expect("taken");
    let mut read = [9; 4096];
    disk.read(1 << 39, &mut read).expect("given");
    assert_eq!(read, [9; 4096], "the buffer is left as it was");
    disk.flush().expect("nothing to flush");
}
