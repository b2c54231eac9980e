use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

#[test]
fn a_path_ends_no_line() {
    let at = |bytes: &[u8]| in_line(OsStr::from_bytes(bytes).as_ref());
    assert_eq!(at(b"/mnt/a\nfiles  on /b\x1b[2J"), r"/mnt/a\nfiles  on /b\u{1b}[2J");
    assert_eq!(at("/mnt/\u{f6} 'x'".as_bytes()), "/mnt/\u{f6} 'x'");
}

#[test]
fn a_request_names_the_very_path_that_was_meant() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Named(#[serde(with = "exact")] PathBuf);
    for name in [&b"/run/a"[..], b"/run/b\xffx", "/run/\u{f6}".as_bytes()] {
        let path = PathBuf::from(OsStr::from_bytes(name));
        let text = serde_json::to_string(&Named(path.clone())).expect("it is written");
        assert_eq!(serde_json::from_str::<Named>(&text).expect("it is read").0, path);
    }
}
