//! Attaching, detaching, and holders that prevent detaching.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use ferrite_devnode::{Attached, Error, Options, Way, clear_stale, lies_on};
use ferrite_disk::{Disk, FaultDisk, FaultPlan};

use crate::ram::RamDisk;
use crate::stand::{Aligned, Stand, direct, run, text};

const MIB: u64 = 1 << 20;

/// AT3: while the node is mounted or open, it stays attached and works, and the error names the holder.
#[test]
fn detach_names_who_holds_it() {
    let Some(stand) = Stand::new() else { return };
    let mut attached = stand.attach("held", &Arc::new(RamDisk::new(32 * MIB)));
    run("mkfs.ext4", &["-q", &text(attached.device())]);
    let mounted = stand.mount(attached.device(), "ext4");
    let Err(Error::Busy { device, who }) = attached.detach() else { panic!("detached while mounted") };
    assert_eq!(device, attached.device());
    assert!(who.iter().any(|one| one == &format!("the mount on {}", mounted.point.display())), "{who:?}");
    fs::write(mounted.point.join("after"), "still works").unwrap();
    mounted.unmount();

    let open = File::open(attached.device()).unwrap();
    let error = attached.detach().unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(attached.link().exists(), "a node that stays keeps its link");
    drop(open);
    attached.detach().unwrap();
    attached.detach().expect("a second detach does nothing");
    stand.assert_clean();
}

/// AT3: a loop device over the node, like the one that `mount -o loop` makes, is a user of the node.
#[test]
fn a_loop_device_over_it_holds_the_node() {
    let Some(stand) = Stand::new() else { return };
    let mut attached = stand.attach("under", &Arc::new(RamDisk::new(32 * MIB)));
    assert_eq!(attached.claims(), Vec::<String>::new());
    let above = run("losetup", &["--find", "--show", &text(attached.device())]);
    let named = format!("the device {} on top of it", above.trim().trim_start_matches("/dev/"));
    let claims = attached.claims();
    let detached = attached.detach();
    run("losetup", &["-d", above.trim()]);
    assert_eq!(claims, std::slice::from_ref(&named));
    let Err(Error::Busy { who, .. }) = detached else { panic!("detached under a loop device") };
    assert!(who.contains(&named), "{who:?}");
    assert_eq!(attached.claims(), Vec::<String>::new(), "nobody has it any more");
    attached.detach().unwrap();
    stand.assert_clean();
}

/// AT3: a use that no list shows counts too, while it lasts: a file system that was unmounted lazily, and the journal
/// of a file system on another device.
#[test]
fn what_the_kernel_has_it_for_holds_the_node() {
    let Some(stand) = Stand::new() else { return };
    let mut attached = stand.attach("unseen", &Arc::new(RamDisk::new(32 * MIB)));
    let device = text(attached.device());
    run("mkfs.ext4", &["-q", &device]);
    let mounted = stand.mount(attached.device(), "ext4");
    let open = File::create(mounted.point.join("file")).unwrap();
    run("umount", &["-l", &text(&mounted.point)]);
    assert_unseen_until(&mut attached, || drop(open));

    let image = stand.directory.path().join("image");
    File::create(&image).unwrap().set_len(32 * MIB).unwrap();
    run("mke2fs", &["-q", "-F", "-O", "journal_dev", &device]);
    run("mkfs.ext4", &["-q", "-F", "-J", &format!("device={device}"), &text(&image)]);
    let elsewhere = stand.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    run("mount", &["-o", "loop", &text(&image), &text(&elsewhere)]);
    assert_unseen_until(&mut attached, || _ = run("umount", &[&text(&elsewhere)]));
    attached.detach().unwrap();
    stand.assert_clean();
}

fn assert_unseen_until(attached: &mut Attached, end: impl FnOnce()) {
    let (claims, unused, detached) = (attached.claims(), attached.ensure_unused(), attached.detach());
    end();
    assert!(claims.iter().any(|one| one.starts_with("the kernel")), "{claims:?}");
    assert!(matches!(unused, Err(Error::Busy { .. })) && matches!(detached, Err(Error::Busy { .. })));
    // The kernel may still be ending the use.
    let is_free = |_| attached.claims().is_empty() || (sleep(Duration::from_millis(100)), false).1;
    assert!((0..100).any(is_free), "claimed for ever: {:?}", attached.claims());
}

/// AT3: a node whose release was refused stays when its holder has gone, even an invisible holder. Here the holder has
/// it open by a name that is not under `/dev`.
#[test]
fn a_refused_node_stays_for_good() {
    let Some(stand) = Stand::new() else { return };
    let mut attached = stand.attach("stays", &Arc::new(RamDisk::new(32 * MIB)));
    let number = fs::metadata(attached.device()).unwrap().rdev();
    let (major, minor) = (libc::major(number).to_string(), libc::minor(number).to_string());
    let named = text(&stand.directory.path().join("named"));
    run("mknod", &[&named, "b", &major, &minor]);
    let above = run("losetup", &["--find", "--show", &named]);
    let refused = attached.detach();
    run("losetup", &["-d", above.trim()]);
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    // A device that goes with its last user would be gone after this close.
    drop(File::open(attached.device()).unwrap());
    assert!(attached.is_there() && attached.link().exists(), "taken away after it was refused");
    direct(attached.link()).read_exact_at(Aligned::filled(4096, 0).get(), 0).expect("still served");
    attached.detach().unwrap();
    stand.assert_clean();
}

/// A person detaches the node, for example by `losetup -d`. The server then removes the rest, and the disk can be
/// attached again.
#[test]
fn a_node_that_a_person_took_away_is_not_there() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(MIB));
    let mut attached = stand.attach("taken", &disk);
    if attached.way() == Way::Nbd {
        eprintln!("skipped: the node is no loop device");
        return attached.detach().unwrap();
    }
    assert!(attached.is_there());
    run("losetup", &["-d", &text(attached.device())]);
    let is_gone = |_| !attached.is_there() || (sleep(Duration::from_millis(100)), false).1;
    assert!((0..50).any(is_gone), "it is said to be there");
    attached.detach().unwrap();
    stand.assert_clean();
}

/// Two disks have two separate nodes, and a name and a link belong to one disk.
#[test]
fn two_disks_at_once() {
    let Some(stand) = Stand::new() else { return };
    let disks = [1, 2].map(|_| Arc::new(RamDisk::new(16 * MIB)));
    let mut one = stand.attach("one", &disks[0]);
    let mut two = stand.attach("two", &disks[1]);
    assert_ne!(one.device(), two.device());
    for (attached, byte) in [(&one, 1), (&two, 2)] {
        direct(attached.link()).write_all_at(Aligned::filled(4096, byte).get(), 0).unwrap();
    }
    for (disk, byte) in disks.iter().zip([1, 2]) {
        let mut read = [0; 4096];
        disk.read(0, &mut read).unwrap();
        assert_eq!(read, [byte; 4096]);
    }
    let same_name = Attached::new(disks[0].clone(), stand.options("one"));
    assert!(matches!(same_name, Err(Error::Held { .. })), "{same_name:?}");
    let same_link = Options { link: two.link().into(), ..stand.options("three") };
    let same_link = Attached::new(disks[0].clone(), same_link);
    assert!(matches!(same_link, Err(Error::LinkTaken { .. })), "{same_link:?}");
    assert_eq!(clear_stale(&stand.places()), Vec::<String>::new(), "what is served was touched");
    direct(one.link()).read_exact_at(Aligned::filled(4096, 0).get(), 0).expect("still served");
    one.detach().unwrap();
    two.detach().unwrap();
    stand.assert_clean();
}

/// Dropping an attached disk that is mounted leaves no resources: the written data is on the disk.
#[test]
fn dropping_unmounts_what_is_on_it() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(32 * MIB));
    let attached = stand.attach("dropped", &disk);
    run("mkfs.ext4", &["-q", &text(attached.device())]);
    let mounted = stand.mount(attached.device(), "ext4");
    fs::write(mounted.point.join("file"), "kept").unwrap();
    drop(attached);
    stand.assert_clean();
    assert_eq!(Arc::strong_count(&disk), 1, "the disk is still held");
    let mut again = stand.attach("dropped", &disk);
    let mounted = stand.mount(again.device(), "ext4");
    assert_eq!(fs::read_to_string(mounted.point.join("file")).unwrap(), "kept");
    mounted.unmount();
    again.detach().unwrap();
    stand.assert_clean();
}

/// AT5: ending also keeps the data when a program uses a file system on the node. The file system holds data that no
/// program synced. It is visible here, in another mount namespace, or nowhere any more. A frozen file system is thawed:
/// it would stay forever, because no program could thaw it later.
#[test]
fn ending_keeps_what_a_file_system_in_use_holds() {
    let Some(stand) = Stand::new() else { return };
    for (begin, end) in [("", ""), ("unshare -m", ""), ("", "; umount -l $1"), ("", "; fsfreeze -f .")] {
        let disk = Arc::new(RamDisk::new(32 * MIB));
        let mut attached = stand.attach("used", &disk);
        run("mkfs.ext4", &["-q", &text(attached.device())]);
        let point = stand.directory.path().join("used");
        fs::create_dir(&point).unwrap();
        let thawed = "! fsfreeze -u . 2> /dev/null";
        let script = format!("mount $0 $1 && cd $1 && echo kept > file {end} && echo ready && read line; {thawed}");
        let mut user = Command::new("env");
        user.args(begin.split_whitespace()).args(["sh", "-c", &script]).args([attached.device(), &point]);
        let mut user = user.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        user.stdout.take().unwrap().read_exact(&mut [0; 6]).expect("it is ready");
        attached.end().expect("nothing is lost");
        drop(user.stdin.take());
        assert!(user.wait().unwrap().success(), "it is frozen still");
        stand.assert_clean();
        let mut again = stand.attach("used", &disk);
        let mounted = stand.mount(again.device(), "ext4");
        assert_eq!(fs::read_to_string(mounted.point.join("file")).expect("there"), "kept\n", "{begin}{end}");
        mounted.unmount();
        again.detach().unwrap();
        fs::remove_dir(&point).unwrap();
    }
}

/// AT5: ending reports that the data of a file system may be lost.
#[test]
fn ending_tells_that_what_a_file_system_held_is_lost() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(FaultDisk::new(RamDisk::new(32 * MIB), FaultPlan::default()));
    let mut attached = Attached::new(disk.clone(), stand.options("refuses")).unwrap();
    run("mkfs.ext4", &["-q", &text(attached.device())]);
    let mounted = stand.mount(attached.device(), "ext4");
    let mut open = File::create(mounted.point.join("file")).unwrap();
    open.write_all(b"lost").unwrap();
    disk.faults().set("error=space".parse().unwrap());
    let message = attached.end();
    drop(open);
    assert!(matches!(message, Err(Error::Io { .. })), "{message:?}");
    stand.assert_clean();
}

#[test]
fn names_that_are_none_are_refused() {
    let Some(stand) = Stand::new() else { return };
    for name in ["", ".", "..", "a/b", "a\nb", ".hidden"] {
        let options = Options { name: name.into(), ..stand.options("x") };
        let refused = Attached::new(Arc::new(RamDisk::new(MIB)), options);
        assert!(matches!(refused, Err(Error::Name(_))), "{name:?}: {refused:?}");
    }
    stand.assert_clean();
}

/// A file that a person put at the path of the link is never replaced or removed.
#[test]
fn a_link_that_is_something_else_stays() {
    let Some(stand) = Stand::new() else { return };
    let options = stand.options("mine");
    let refused = || {
        let refused = Attached::new(Arc::new(RamDisk::new(MIB)), options.clone());
        assert!(matches!(refused, Err(Error::LinkTaken { .. })), "{refused:?}");
    };
    fs::create_dir_all(options.link.parent().unwrap()).unwrap();
    fs::write(&options.link, "precious").unwrap();
    refused();
    assert_eq!(fs::read_to_string(&options.link).unwrap(), "precious");
    fs::remove_file(&options.link).unwrap();

    let image = stand.directory.path().join("image");
    File::create(&image).unwrap().set_len(MIB).unwrap();
    let other = run("losetup", &["--find", "--show", &text(&image)]);
    symlink(other.trim(), &options.link).unwrap();
    refused();
    let target = fs::read_link(&options.link);
    run("losetup", &["-d", other.trim()]);
    assert_eq!(target.unwrap(), Path::new(other.trim()));

    let mut attached = Attached::new(Arc::new(RamDisk::new(MIB)), options.clone()).expect("a link to nothing is free");
    attached.detach().unwrap();
    stand.assert_clean();
}

/// Without the rights the error names the missing right and says that the disk is served in spite of it.
#[test]
fn without_root_it_says_so() {
    let Some(_stand) = Stand::new() else { return };
    if env::var_os("FERRITE_ATTACH_REFUSED").is_some() {
        return;
    }
    let nobody = Command::new(env::current_exe().unwrap())
        .args(["--exact", "life::without_root_it_says_so", "--nocapture"])
        .env("FERRITE_ATTACH_REFUSED", "1")
        .uid(65534)
        .output();
    match nobody {
        Err(error) => eprintln!("skipped: user 65534 cannot run this test: {error}"),
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(message.contains("cannot make a /dev node: only root may; use the disk over NBD"), "{message}");
        }
    }
}

/// A pool on a file system on the node is recognized; a pool elsewhere is not reported.
#[test]
fn what_lies_on_the_node_is_known() {
    let Some(stand) = Stand::new() else { return };
    let mut attached = stand.attach("under", &Arc::new(RamDisk::new(32 * MIB)));
    run("mkfs.ext4", &["-q", &text(attached.device())]);
    let mounted = stand.mount(attached.device(), "ext4");
    let device = attached.link();
    assert!(lies_on(&mounted.point.join("not/yet/there"), device).unwrap());
    assert!(lies_on(attached.device(), device).unwrap());
    assert!(!lies_on(stand.directory.path(), device).unwrap());
    assert!(!lies_on(Path::new("/dev/shm/pool"), device).unwrap());
    let image = mounted.point.join("image");
    File::create(&image).unwrap().set_len(8 * MIB).unwrap();
    let above = run("losetup", &["--find", "--show", &text(&image)]);
    assert!(lies_on(Path::new(above.trim()), device).unwrap(), "through another loop device");
    run("losetup", &["-d", above.trim()]);
    mounted.unmount();
    attached.detach().unwrap();
    stand.assert_clean();
}
