use super::*;

#[test]
fn programs_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = found(Path::new("sh")).expect("there is a shell");
    assert_eq!(refuses(&shell, DEEP), None);
    let script = folder.path().join("script");
    fs::write(&script, "#! /bin/sh -e\n").expect("written");
    assert_eq!(refuses(&script, DEEP), None);
    let mut plain = fs::read(&shell).expect("read");
    plain[56..58].fill(0);
    fs::write(&script, &plain).expect("written");
    assert!(refuses(&script, DEEP).is_some_and(|why| why.contains("static")));
    plain[18] = 183;
    fs::write(&script, plain).expect("written");
    assert!(refuses(&script, DEEP).is_some_and(|why| why.contains("machine")));
}
