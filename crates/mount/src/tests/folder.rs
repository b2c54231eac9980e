//! Where root mounts and unmounts while another user renames and links (MF1), and what rights the mount gives.

use std::fs;
use std::os::unix::fs::{lchown, symlink};

use super::super::ensure_own_links;
use super::{Bug, MountFolder, Mounted, World, assert_guarded};

/// A user who is not root.
const OTHER: u32 = 12345;

/// Another user's link may lead anywhere; root's own, and one that a folder's name is put behind, lead where root meant.
#[test]
fn mf1_root_follows_no_symbolic_link_of_another_user() {
    assert_guarded(Bug::LinkFollowed, |_| {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        fs::create_dir_all(at.join("victim/below")).expect("made");
        let (own, others) = (at.join("own"), at.join("others"));
        symlink("victim", &own).expect("linked");
        symlink(at.join("victim"), &others).expect("linked");
        lchown(&others, Some(OTHER), Some(OTHER)).expect("root may");
        let seen = |path: &std::path::Path| MountFolder::open(path).and_then(|folder| folder.path()).ok();
        let victim = Some(at.join("victim"));
        assert_eq!((seen(&own), seen(&own.join("below/.."))), (victim.clone(), victim));
        assert!(MountFolder::open(&at.join("none")).is_err());
        assert!(ensure_own_links(&own.join("new/folder")).is_ok());
        let is_refused = |done: std::io::Result<()>| {
            done.is_err_and(|why| why.to_string().contains("a symbolic link of user 12345"))
        };
        is_refused(MountFolder::open(&others.join("below")).map(drop))
            && is_refused(ensure_own_links(&others.join("new")))
    });
}

/// A folder that is renamed, and replaced by a link, between the look at it and the mount.
#[test]
fn mf1_what_replaces_an_open_folder_is_not_mounted_on() {
    let Some(world) = World::new(None) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().canonicalize().expect("there");
    let [victim, point, moved] = ["victim", "point", "moved"].map(|name| at.join(name));
    fs::create_dir(&victim).and_then(|()| fs::create_dir(&point)).expect("made");
    let open = MountFolder::open(&point).expect("opened");
    fs::rename(&point, &moved).and_then(|()| symlink(&victim, &point)).expect("replaced");
    let mut mounted = Mounted::start_on(&world.fs, &open, &World::how(false)).expect("mounted");
    let listed = fs::read_to_string("/proc/self/mountinfo").expect("listed");
    assert_eq!((mounted.point(), listed.contains(victim.to_str().expect("text"))), (&*moved, false));
    mounted.unmount().expect("nobody uses it");
    assert_eq!(mounted.seen_at(), None);
}

/// A program that belongs to root and sets its user, in a file system that any user may have made.
#[test]
fn what_root_mounts_gives_no_rights_unless_asked_to() {
    assert_guarded(Bug::SuidLifted, |world| {
        world.sh("chmod 755 . && cp $(command -v id) id && chmod 4755 id && mknod -m 666 null c 1 3");
        let by = "setpriv --reuid 12345 --regid 12345 --clear-groups";
        let user = world.sh(&format!("{by} ./id -u"));
        assert!(user.status.success(), "it is run: {user:?}");
        user.stdout == b"12345\n" && !world.sh("cat null").status.success()
    });
}
