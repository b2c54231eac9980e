use super::*;

/// Not if this thread is inside already: a signal handler would wait for the code that it interrupted.
#[test]
fn ld5_what_takes_locks_amid_a_write_is_done_inside_or_not_at_all() {
    let mut was_inside = None;
    quietly(&mut || was_inside = Some(reentrancy::is()));
    assert_eq!((was_inside, reentrancy::is()), (Some(true), false));
    let _inside = reentrancy::enter();
    quietly(&mut || panic!("within itself"));
}

#[test]
fn our_mounts_are_told_from_others() {
    let line = br"36 35 0:42 / /mnt/a\040b rw,nosuid shared:7 master:1 - fuse.ferrite /var/a\040b:c:files rw,user_id=0";
    assert_eq!(ours(line), Some((libc::makedev(0, 42), "/var/a b:c".into(), "files".into())));
    assert_eq!(ours(br"36 35 0:42 / /mnt rw - tmpfs /a:b rw"), None);
    assert_eq!(ours(b""), None);
}
