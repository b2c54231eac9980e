use super::*;

#[test]
fn the_disk_made_unasked_is_as_large_as_fits() {
    let free = |chunks: u64| disk_bytes(16, chunks);
    assert_eq!((free(1), free(2), free(3)), (None, Some(DISK_BYTES_MIN), Some(CHUNK)));
    assert_eq!((free(10), free(18), free(1000)), (Some(8 * CHUNK), Some(16 * CHUNK), Some(16 * CHUNK)));
    assert_eq!(disk_bytes(u64::MAX / CHUNK, u64::MAX), Some(DISK_BYTES_MAX));
}
