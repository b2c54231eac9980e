use super::*;

#[test]
fn each_container_is_named_with_the_command_that_unpacks_it() {
    for (magic, what, command) in KNOWN {
        let begin = [magic, b"9", BZIP2_BLOCK].concat();
        let said = advice(&begin[..DETECTED_BY.min(begin.len())], "t").expect(what);
        assert!(said.contains(what) && said.contains(&format!("{command} t | ")), "{said}");
    }
    assert_eq!([advice(b"BZh9 is a line", "t"), advice(b"W 0 4\n", "t"), advice(b"", "t")], [None, None, None]);
}
