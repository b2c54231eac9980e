//! The rights of a file after a change of its owner or content (FM3).

use ferrite_fs::{DataMode, Ino, SetXattr};

use super::{Bug, World, assert_guarded};

/// A program's right to do as root with the network, as the kernel keeps it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A new owner does not inherit the rights of the previous one.
#[test]
fn fm3_a_change_of_owner_takes_set_id_bits_away() {
    assert_guarded(Bug::RightsKept, |world| {
        world.sh("echo program > f && chmod 6755 f && chown 12345 f");
        world.fs.lookup(Ino::ROOT, b"f").expect("it was made").mode == 0o755
    });
}

/// A program that another user has changed runs without its owner's rights, and its mode shows it.
#[test]
fn fm3_the_kernel_forgets_rights_that_a_change_of_content_takes() {
    let look = |world: &World| {
        let by = "setpriv --reuid 12345 --regid 12345 --clear-groups";
        let changes = [
            "sh -c \"echo more >> $f\"",
            "sh -c \"echo x 1<> $f\"",
            "fallocate -l 9000 $f",
            "dd if=/dev/zero of=$f bs=512 count=1 conv=notrunc oflag=direct",
        ];
        let change = |(n, change): (usize, &&str)| {
            format!("f=f{n}; echo program > $f; chmod 6777 $f; stat -c %a $f; {by} {change}; stat -c %a $f\n")
        };
        let script: String = changes.iter().enumerate().map(change).collect();
        let said = world.sh(&format!("chmod 777 .\n{script}"));
        said.stdout == b"6777\n777\n".repeat(changes.len())
    };
    assert_guarded(Bug::RightsRemembered, look);
}

/// A change of content removes the capabilities of a program. The kernel does it itself if it caches the write.
#[test]
fn fm3_a_change_of_content_takes_capabilities_away() {
    const CHANGES: [&str; 4] = [
        "sh -c \"echo more >> $f\"",
        "truncate -s 3 $f",
        "fallocate -l 9000 $f",
        "dd if=/dev/zero of=$f bs=512 count=1 conv=notrunc oflag=direct",
    ];
    let are_gone = |bug, data| {
        let world = World::with(bug, data)?;
        let each = |script: &dyn Fn(usize) -> String| (0..CHANGES.len()).map(script).collect::<String>();
        world.sh(&each(&|n| format!("echo program > f{n}; chmod 777 f{n}; ")));
        let ino = |n: usize| world.fs.lookup(Ino::ROOT, format!("f{n}").as_bytes()).expect("it was made").ino;
        let set = |n| world.fs.set_xattr(ino(n), b"security.capability", &CAPABILITY, SetXattr::Any).expect("set");
        (0..CHANGES.len()).for_each(set);
        let by = "setpriv --reuid 12345 --regid 12345 --clear-groups";
        let said = world.sh(&each(&|n| format!("f=f{n}; {by} {} || exit; ", CHANGES[n])));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        Some((0..CHANGES.len()).all(|n| world.fs.xattr(ino(n), b"security.capability").is_err()))
    };
    let Some(in_copy) = are_gone(None, DataMode::Sync) else { return };
    assert!(in_copy && are_gone(None, DataMode::Atomic) == Some(true));
    assert_eq!(are_gone(Some(Bug::CapabilitiesKept), DataMode::Atomic), Some(false), "it was planted and not found");
}

/// A user outside of a group cannot give a program the rights of the group.
#[test]
fn fm3_space_and_an_acl_by_who_may_not_keep_set_id_bits_take_them_away() {
    const ACL: &str = "$acl = pack('V', 2) . join('', map { pack('vvV', $_, 7, 0xffffffff) } 1, 4, 32); \
        $name = 'system.posix_acl_access'; syscall(188, $ARGV[0], $name, $acl, length $acl, 0) == 0 or die $!";
    assert_guarded(Bug::RightsKept, |world| {
        let made = "for f in space acl member; do echo > $f; chown 12345:777 $f; chmod 6777 $f; done";
        let by = "setpriv --reuid 12345 --regid 12345";
        let space = format!("{by} --clear-groups fallocate -l 100 space");
        let acl = |groups: &str, name: &str| format!("{by} {groups} perl -e '{}' {name}", ACL.replace('\'', "\""));
        let acls = format!("{} && {}", acl("--clear-groups", "acl"), acl("--groups 777", "member"));
        let said = world.sh(&format!("{made}; {space} && {acls}"));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let mode = |name: &str| world.fs.lookup(Ino::ROOT, name.as_bytes()).expect("it was made").mode;
        ["space", "acl", "member"].map(mode) == [0o777, 0o4777, 0o6777]
    });
}

/// Set-group-id on what the group may not execute means locking, and is the group's to keep (mode 2644 as in `chmod l`).
#[test]
fn fm3_who_is_not_of_the_group_ends_its_locking_by_a_change() {
    assert_guarded(Bug::RightsKept, |world| {
        let made = "for f in member stranger; do echo > $f; chown 12345:777 $f; chmod 2644 $f; done";
        let by =
            |groups: &str, name: &str| format!("setpriv --reuid 12345 --regid 12345 {groups} truncate -s 9 {name}");
        let changed = format!("{} && {}", by("--groups 777", "member"), by("--clear-groups", "stranger"));
        let said = world.sh(&format!("{made}; {changed}"));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let mode = |name: &str| world.fs.lookup(Ino::ROOT, name.as_bytes()).expect("it was made").mode;
        ["member", "stranger"].map(mode) == [0o2644, 0o644]
    });
}

/// As on the kernel's own file systems; also where writes come here past its cache, and are to take them.
#[test]
fn fm3_a_store_to_a_mapping_takes_no_rights() {
    const STORE: &str = "$cap = pack(\"V5\", 0x2000001, 1 << 10, 0, 0, 0); $name = \"security.capability\"; $f = \"f\"; \
        syscall(188, $f, $name, $cap, 20, 0) == 0 or die $!; open F, \"+<\", \"f\"; open Z, \"/dev/zero\"; \
        $at = syscall(9, 0, 4096, 3, 1, fileno F, 0); if ($at == -1) { print \"none\"; exit } \
        syscall(0, fileno Z, $at, 4) == 4 or die $!; syscall(26, $at, 4096, 4) == 0 or die $!";
    for data in [DataMode::Sync, DataMode::Atomic] {
        let Some(world) = World::with(None, data) else { return };
        let said = world.sh(&format!("printf content > f && chmod 6755 f && perl -e '{STORE}'"));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        if said.stdout == b"none" {
            println!("skipped: this kernel maps no file that is opened past its cache");
            return;
        }
        let (attr, mut bytes) = (world.fs.lookup(Ino::ROOT, b"f").expect("it was made"), [1; 7]);
        world.fs.read(attr.ino, 0, &mut bytes).expect("it reads");
        let capability = || world.fs.xattr(attr.ino, b"security.capability");
        assert!(&bytes == b"\0\0\0\0ent" && attr.mode == 0o6755 && capability().is_ok(), "{data:?}: {attr:?}");
        world.sh("printf more >> f");
        assert!(capability().is_err(), "{data:?}: a write takes it");
    }
}
