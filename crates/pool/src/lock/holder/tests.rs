use super::*;

#[test]
fn a_line_of_proc_locks_is_read_and_a_waiter_is_not() {
    let held = Held::parse("7: FLOCK  ADVISORY  WRITE 4711 fe:1a:131077 0 EOF").expect("a lock");
    assert_eq!((held.pid, held.device, held.inode), (4711, (0xfe, 0x1a), 131_077));
    assert!(Held::parse("7: -> FLOCK  ADVISORY  WRITE 4712 fe:1a:131077 0 EOF").is_none());
    assert!(Held::parse("8: POSIX  ADVISORY  WRITE 4713 fe:1a:131077 0 EOF").is_none());
    assert!(Held::parse("9: FLOCK  ADVISORY  WRITE 0 fe:1a:131077 0 EOF").is_none(), "hidden process");
    assert!(Held::parse("9: FLOCK").is_none());
}

#[test]
fn a_locked_file_is_listed_by_its_name_until_it_has_none() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().canonicalize().expect("there");
    let is_listed = || LockedFile::all().iter().any(|it| it.path == path && it.pid == std::process::id());
    assert!(!is_listed());
    file.as_file().lock().expect("locked");
    assert!(is_listed());
    fs::rename(&path, path.with_extension("moved")).expect("renamed");
    assert!(!is_listed(), "by a name that it has lost");
    let moved = LockedFile::all().into_iter().find(|it| it.path == path.with_extension("moved"));
    assert_eq!(moved.map(|it| it.pid), Some(std::process::id()));
    fs::remove_file(path.with_extension("moved")).expect("removed");
}

#[test]
fn who_was_killed_and_has_not_ended_is_told_from_who_lives() {
    let status =
        |state, pending| format!("Name:\tferrite\nState:\t{state}\nSigPnd:\t{pending}\nShdPnd:\t0000000000000000\n");
    assert!(
        is_ending(&status("Z (zombie)", "0000000000000000"))
            && is_ending(&status("D (disk sleep)", "0000000000000100"))
    );
    assert!(!is_ending(&status("S (sleeping)", "0000000000000002")) && !is_ending(""));
}

#[test]
fn a_holder_is_told_in_one_line() {
    let mut holder = Holder { pid: Some(123), command: Some(command_line(b"/usr/bin/ferrite\0up\0")) };
    assert_eq!(holder.to_string(), "held by process 123 (ferrite up)");
    holder.command = Some(command_line(b"a\nb\0\x1b[2J\0"));
    assert_eq!(holder.to_string(), "held by process 123 (a b  [2J)");
    holder.pid = None;
    assert_eq!(holder.to_string(), "held by a process that cannot be seen from here");
}
