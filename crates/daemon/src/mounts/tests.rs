use super::*;

#[test]
fn a_command_names_a_mount_by_a_word_or_by_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().canonicalize().expect("there");
    let point = at.join("mnt");
    fs::create_dir(&point).expect("made");
    let is_named = |here: &Path, word: String| is_named(&point, here, &["program".into(), word.into()]);
    assert!(is_named(&point.join("below"), "x".into()));
    assert!(is_named(&at, format!("--dir={}/x", point.display())));
    assert!(is_named(&at, "mnt/../mnt".into()));
    assert!(!is_named(&at, "other".into()) && !is_named(&at, format!("{}", at.display())));
}

#[test]
fn a_mount_would_hide_what_is_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    assert!(!would_hide(at) && !would_hide(&at.join("is not there")));
    fs::write(at.join(".hidden"), "").expect("written");
    assert!(would_hide(at) && !would_hide(&at.join(".hidden")), "what is no folder cannot be mounted on");
}

#[test]
fn lines_of_the_kernels_list_are_read() {
    let mount =
        parsed(br"36 35 0:42 / /mnt/a\040b rw,noexec shared:7 - fuse.ferrite /var/a\040b:files rw").expect("a mount");
    assert_eq!((mount.point.to_str(), mount.source.to_str()), (Some("/mnt/a b"), Some("/var/a b:files")));
    assert_eq!(mount.device, libc::makedev(0, 42));
    assert_eq!(mount.user, None);
    assert!(parsed(b"").is_none());
}
