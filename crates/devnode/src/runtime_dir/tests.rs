use ferrite_memory::planted::plant;

use super::*;

fn place() -> (tempfile::TempDir, RuntimeDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = RuntimeDir::make(&folder.path().join("disks"), "disk").expect("a name");
    (folder, place)
}

/// Two servers of one disk would clear each other's nodes.
#[test]
fn ap1_one_alone_has_a_place() {
    let (_folder, place) = place();
    let lock = place.lock().expect("nobody has it");
    lock.note([Path::new("/dev/link"), Path::new("/dev/short")].into_iter()).expect("noted");
    assert_eq!(lock.noted_links(), [PathBuf::from("/dev/link"), PathBuf::from("/dev/short")]);
    let refused = place.lock().expect_err("it is taken").to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    assert!(is_held(place.root()));
    // A program that another test starts holds the lock too until its exec; a holder without a number is waited
    // for.
    lock.file.set_len(0).expect("cut");
    drop(lock);
    place.lock().expect("it is free");
}

/// Returns true if a directory with a mount in it stays locked when its server removes it.
fn stays_locked(place: &RuntimeDir) -> bool {
    let lock = place.lock().expect("nobody has it");
    fs::create_dir(place.mount_point()).expect("made");
    fs::write(place.backing(), "").expect("made");
    lock.remove().is_err() && place.root().join("lock").exists()
}

/// A server that locks the directory too early would take the remaining resources for its own.
#[test]
fn ap2_the_lock_goes_when_all_else_has_gone() {
    let (folder, place) = place();
    assert!(stays_locked(&place), "AP2");
    fs::remove_file(place.backing()).expect("gone");
    place.lock().expect("nobody has it").remove().expect("nothing is left");
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0, "nor are folders");
}

#[test]
fn canary_a_lock_that_goes_before_what_is_mounted_is_found() {
    let _bug = plant("devnode: lock removed beside a mount");
    assert!(!stays_locked(&place().1));
}
