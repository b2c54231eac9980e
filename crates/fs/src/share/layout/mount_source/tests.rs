use super::*;

#[test]
fn a_source_is_read_as_it_was_written() {
    for (pool, name) in [("/a/pool", "files"), ("/a:b/p:1", "x:y%3A%"), ("/p", "%25"), ("/p", "ä b")] {
        let source = mount_source(Path::new(pool), name);
        assert_eq!(read_mount_source(&source), Some((pool.into(), name.into())), "{source}");
    }
    assert_eq!(read_mount_source("ferrite"), None);
}
