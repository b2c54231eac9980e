use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Command;

use super::*;
use crate::tie::Generation;

const PRECIOUS: &[u8] = b"precious";
/// A user that is not root.
const NOBODY: u32 = 65534;

type Making = fn(&FilePlace) -> Result<FilePart>;

/// As the file system likes it, and as one does that has no files without names.
const MAKINGS: [Making; 2] = [FilePlace::make, FilePlace::make_named];

fn begun(path: &Path, making: Making) -> AtomicFile {
    let place = FilePlace::find(path).expect("a place");
    let there = place.look().expect("looked at");
    AtomicFile::at(place, there, making).expect("begin")
}

fn write(path: &Path, making: Making, content: &[u8]) {
    let mut partial = begun(path, making);
    partial.file().write_all(content).expect("write");
    partial.finish().expect("finish");
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("metadata").permissions().mode() & 0o7777
}

/// Runs `script` as a user that is not root; false where this process cannot.
fn as_nobody(script: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped in part: only root becomes another user");
        return false;
    }
    let user = NOBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "sh", "-ec", script]);
    assert!(command.status().expect("setpriv runs").success(), "{script}");
    true
}

/// A folder with the mode `mode` in which everybody can get at what is in it.
fn shared(mode: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("its mode");
    folder
}

#[test]
fn what_was_there_stays_until_the_new_file_is_whole() {
    for making in MAKINGS {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        fs::write(&path, PRECIOUS).expect("write");
        let mut given_up = begun(&path, making);
        given_up.file().write_all(b"half").expect("write");
        drop(given_up);
        assert_eq!(fs::read(&path).expect("read"), PRECIOUS);
        assert_eq!(names_in(folder.path()), ["file"], "nothing is left beside it");
        write(&path, making, b"new");
        assert_eq!(fs::read(&path).expect("read"), b"new");
        write(&folder.path().join("other"), making, b"new");
        assert_eq!(names_in(folder.path()), ["file", "other"]);
    }
}

/// Only its user can open a new file. A file that replaces one of the user's own keeps the mode.
#[test]
fn a_file_is_private_unless_its_user_has_opened_it() {
    for making in MAKINGS {
        let folder = tempfile::tempdir().expect("folder");
        let (path, theirs) = (folder.path().join("file"), folder.path().join("theirs"));
        write(&path, making, PRECIOUS);
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its mode");
        write(&path, making, PRECIOUS);
        assert_eq!(mode(&path), 0o644);
        fs::write(&theirs, "").expect("write");
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o666)).expect("its mode");
        if chown(&theirs, Some(NOBODY), None).is_ok() {
            write(&theirs, making, PRECIOUS);
            assert_eq!((mode(&theirs), fs::metadata(&theirs).expect("there").uid()), (0o600, own_user()));
        }
    }
}

/// A link stays one, and the file that it leads to is made or replaced, by whatever way the link names it.
#[test]
fn a_link_is_written_through() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("deep")).expect("made");
    symlink("second", path("first")).expect("link");
    symlink(path("deep/third"), path("second")).expect("link");
    symlink("../precious", path("deep/third")).expect("link");
    for content in [PRECIOUS, b"new"] {
        write(&path("first"), FilePlace::make_named, content);
        assert_eq!(fs::read(path("precious")).expect("read"), content);
        assert!(["first", "second", "deep/third"].iter().all(|name| path(name).is_symlink()));
    }
    symlink("round", path("round")).expect("link");
    AtomicFile::begin(&path("round")).expect_err("it leads nowhere");
}

/// Links, pipes and folders that have a part's name are left alone, and the file is written beside them.
#[test]
fn what_has_a_parts_name_is_not_written_to() {
    for making in MAKINGS {
        let folder = tempfile::tempdir().expect("folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("precious"), PRECIOUS).expect("write");
        fs::write(path("file"), "old").expect("write");
        symlink(path("precious"), path("file.partial")).expect("link");
        fs::hard_link(path("precious"), path("file.1.partial")).expect("link");
        assert!(Command::new("mkfifo").arg(path("file.2.partial")).status().expect("mkfifo").success());
        fs::create_dir(path("file.3.partial")).expect("made");
        write(&path("file"), making, b"new");
        assert_eq!(
            (fs::read(path("precious")).expect("read"), fs::read(path("file")).expect("read")),
            (PRECIOUS.to_vec(), b"new".to_vec())
        );
        assert_eq!(names_in(folder.path()).len(), 6, "they are not ours to remove");
    }
}

#[test]
fn a_killed_writers_part_is_removed_and_a_living_ones_is_not() {
    for making in MAKINGS {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        fs::write(&path, "old").expect("write");
        fs::write(folder.path().join("file.partial"), vec![1; 1 << 20]).expect("write");
        let mut living = begun(&path, FilePlace::make_named);
        living.file().write_all(b"first").expect("write");
        assert_eq!(living.named.as_deref(), Some(OsStr::new("file.partial")));
        write(&path, making, b"second");
        assert_eq!(fs::read(&path).expect("read"), b"second");
        living.finish().expect("finish");
        assert_eq!(fs::read(&path).expect("read"), b"first");
        assert_eq!(names_in(folder.path()), ["file"]);
    }
}

/// Another user makes the part first and would own the whole file.
#[test]
fn a_part_that_another_user_planted_is_never_opened() {
    for (mode, making) in [0o1777, 0o777].into_iter().flat_map(|mode| MAKINGS.map(|making| (mode, making))) {
        let folder = shared(mode);
        let path = |name: &str| folder.path().join(name);
        let plant = format!("umask 0; touch {0}/file.partial {0}/file", folder.path().display());
        if !as_nobody(&plant) {
            return;
        }
        let planted = File::open(path("file.partial")).expect("open");
        write(&path("file"), making, PRECIOUS);
        write(&path("new"), making, PRECIOUS);
        assert_eq!(planted.metadata().expect("metadata").len(), 0, "the other user's file has nothing of ours");
        for name in ["file", "new"] {
            let found = fs::metadata(path(name)).expect("metadata");
            assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "{name}");
        }
    }
}

/// In a folder that others may write to root follows no link, at the end of a path or on its way.
#[test]
fn root_follows_no_link_where_others_may_write() {
    let (folder, own) = (shared(0o1777), tempfile::tempdir().expect("folder"));
    let path = |name: &str| folder.path().join(name);
    let precious = own.path().join("precious");
    fs::write(&precious, PRECIOUS).expect("write");
    let (to, at) = (own.path().display(), folder.path().display());
    if !as_nobody(&format!(
        "ln -s {to}/precious {at}/link; ln -s {to} {at}/way; mkfifo {at}/pipe; ln -s {at}/pipe {at}/p"
    )) {
        return;
    }
    let said = |name: &str| match OutputFile::begin(&path(name)) {
        Err(Error::Untrusted(why)) => why,
        other => panic!("{name}: {other:?}"),
    };
    for name in ["link", "way/precious", "way/new", "p"] {
        assert!(said(name).contains("is a symbolic link"), "{name}");
    }
    assert!(said("pipe").contains("user 65534's"));
    symlink(&precious, path("roots")).expect("link");
    assert!(said("roots").contains("is not followed"));
    assert_eq!(fs::read(&precious).expect("read"), PRECIOUS);
    assert_eq!(names_in(own.path()), ["precious"]);
}

/// A pipe or device keeps its place, even if only procfs has a name for it.
#[test]
fn a_stream_is_written_to_as_it_is() {
    let (mut far, near) = io::pipe().expect("a pipe");
    let through = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&near)));
    let mut output = OutputFile::begin(&through).expect("begin");
    output.write_all(PRECIOUS).expect("write");
    output.finish().expect("finish");
    drop(near);
    let mut got = Vec::new();
    io::Read::read_to_end(&mut far, &mut got).expect("read");
    assert_eq!(got, PRECIOUS);
    assert!(matches!(OutputFile::begin(Path::new("/dev/null")), Ok(OutputFile::Stream(_))));
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("file");
    let file = File::create(&path).expect("made");
    let through = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    let mut output = OutputFile::begin(&through).expect("begin");
    output.write_all(PRECIOUS).expect("write");
    output.finish().expect("finish");
    assert_eq!(fs::read(&path).expect("read"), PRECIOUS);
    OutputFile::begin(Path::new("/proc/self")).expect_err("a folder");
}

/// A crash may leave the record of a member's tie in one of its two places.
#[test]
fn a_member_is_refused_by_either_of_its_records_and_other_objects_are_not() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("member");
    ensure_no_member(&path).expect("there is no file");
    let generation = Generation::first(5);
    let record = TieRecord { role: TieRole::Ssd, pool: [7; 16], object: [8; 16], generation, previous: None };
    let refusal = |at: u64, role| {
        let file = File::create(&path).expect("created");
        file.write_all_at(&TieRecord { role, ..record }.encode(), at).expect("written");
        ensure_no_member(&path).err().map(|error| error.to_string())
    };
    for (at, role, noun) in [(0, TieRole::Ssd, "an SSD"), (PAGE, TieRole::Ssd, "an SSD"), (0, TieRole::Disk, "a disk")]
    {
        let message = refusal(at, role).expect("refused");
        let member = format!("{} is {noun} of a cache of pool 07070707-0707-0707-0707-070707070707", path.display());
        assert!(message.starts_with(&member) && message.contains("`ferrite cache remove`"), "{message}");
        assert!(message.ends_with("overwrite the first 8 KiB"), "{message}");
    }
    for (at, role) in [(0, TieRole::Image), (PAGE, TieRole::Sqlite), (2 * PAGE, TieRole::Disk), (8, TieRole::Ssd)] {
        assert_eq!(refusal(at, role), None, "{role:?} at {at}");
    }
    refusal(PAGE, TieRole::Disk).expect("refused");
    let file = OpenOptions::new().write(true).open(&path).expect("opened");
    file.write_all_at(&[0; 2 * PAGE as usize], 0).expect("written");
    ensure_no_member(&path).expect("the advice works");
}
