//! Other users of the machine: Ferrite neither uses nor waits for the files that they plant, own or lock.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use tempfile::TempDir;

use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, folder, json, ok, refused, run, signal};

/// The id of a user that is not root.
const NOBODY: u32 = 65534;

/// Returns a folder in memory that all users may write to, like `/dev/shm` itself. Returns `None` if this process is
/// not root.
fn shared() -> Option<TempDir> {
    let folder = folder(true);
    if folder.path().metadata().expect("there").uid() != 0 {
        println!("skipped: only root becomes another user");
        return None;
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("its mode");
    Some(folder)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Returns a command for `program` as another user.
fn as_nobody(program: impl AsRef<Path>) -> Command {
    let user = NOBODY.to_string();
    let mut command = client("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(program.as_ref());
    command
}

fn shell_as_nobody(script: &str) {
    run(as_nobody("sh").args(["-ec", script]));
}

/// Makes a copy of the binary that every user may run.
fn binary_for_all(folder: &TempDir) -> PathBuf {
    let copy = folder.path().join("ferrite");
    fs::copy(ferrite_path(), &copy).expect("copied");
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).expect("its mode");
    copy
}

/// Another user creates the temporary file of a backup first.
#[test]
fn a_planted_partial_gets_nothing_of_roots_backup() {
    let Some(folder) = shared() else { return };
    let path = |name: &str| folder.path().join(name);
    let (pool, image) = (path("pool"), path("x.img"));
    ok(&["pool", "create", text(&pool), "--size", "16M"]);
    shell_as_nobody(&format!("umask 0; cd {}; touch x.img.partial x.img y.partial", folder.path().display()));
    let planted = ["x.img", "x.img.partial", "y.partial"].map(|name| File::open(path(name)).expect("opened"));
    let server = Server::start(&pool, &["--no-attach", "--no-disk", "--backup", text(&path("y"))]);
    ok(&["pool", "backup", text(&pool), text(&image)]);
    signal(server.pid(), "PWR");
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        path("y").exists()
    }));
    server.interrupt();
    fs::write(path("content"), "secret").expect("written");
    ok(&["tag", "put", text(&pool), "t", text(&path("content"))]);
    ok(&["tag", "get", text(&pool), "t", text(&path("got"))]);
    for name in ["x.img", "y", "got"] {
        let found = fs::metadata(path(name)).expect("there");
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "{name}");
    }
    assert!(planted.iter().all(|file| file.metadata().expect("looked at").len() == 0), "another user has root's bytes");
    shell_as_nobody(&format!("ln -s /etc/passwd {0}/link; mkfifo {0}/pipe", folder.path().display()));
    for name in ["link", "pipe"] {
        let said = refused(ferrite().args(["tag", "get", text(&pool), "t", text(&path(name))]), 1);
        assert!(said.contains("link in a folder that other users") || said.contains("is user 65534's"), "{said}");
    }
}

/// Ferrite does not serve, read or fill a pool that another user owns or may write to, unless an option names that
/// user.
#[test]
fn a_pool_of_another_user_is_used_only_if_that_user_is_trusted() {
    let Some(folder) = shared() else { return };
    let path = |name: &str| folder.path().join(name);
    let (own, pool, image) = (path("own"), path("pool"), path("image"));
    let (own, pool, image) = (text(&own), text(&pool), text(&image));
    let binary = binary_for_all(&folder);
    run(as_nobody(&binary).args(["pool", "create", pool, "--size", "16M"]));
    ok(&["pool", "create", own, "--size", "16M"]);
    ok(&["pool", "backup", own, image]);
    let lose = (16 << 20).to_string();
    for mode in [0o666, 0o600] {
        fs::set_permissions(pool, Permissions::from_mode(mode)).expect("its mode");
        let before = fs::read(pool).expect("read");
        for words in [
            &["up", "--no-mount", "--no-attach", "--pool", pool][..],
            &["pool", "info", pool],
            &["pool", "create", pool, "--lose", &lose],
            &["pool", "restore", image, pool, "--lose", &lose],
            &["tag", "put", pool, "t", image],
        ] {
            let said = refused(ferrite().args(words), 1);
            assert!(
                said.contains("belongs to user nobody") && said.contains("--trust-owner nobody"),
                "{words:?}: {said}"
            );
        }
        assert!(fs::read(pool).expect("read") == before, "a refused pool is not touched");
    }
    ok(&["--trust-owner", "nobody", "pool", "info", pool]);
    run(ferrite().args(["pool", "info", pool]).env("FERRITE_TRUST_OWNER", "65534"));
    fs::set_permissions(pool, Permissions::from_mode(0o666)).expect("its mode");
    let said = refused(ferrite().args(["pool", "info", pool, "--trust-owner", "nobody"]), 1);
    assert!(said.contains("has mode 666") && said.contains("--trust-writable"), "{said}");
    ok(&["pool", "info", pool, "--trust-owner", "nobody", "--trust-writable"]);
    let said = refused(ferrite().args(["pool", "info", pool, "--trust-owner", "no-such-user"]), 2);
    assert!(said.contains("there is no user"), "{said}");
    // An image needs the same trust as a pool: data that another user chose would become root's pool.
    std::os::unix::fs::chown(image, Some(NOBODY), None).expect("given");
    let said = refused(ferrite().args(["pool", "restore", image, text(&path("new"))]), 1);
    assert!(said.contains("--trust-owner nobody") && !path("new").exists(), "{said}");
    ok(&["pool", "restore", image, text(&path("new")), "--trust-owner", "nobody"]);
}

/// An owner process of another user gets neither a request nor a descriptor. The same holds for the owner of that
/// user's pool, and for a process that replaced the socket of root's pool.
#[test]
fn an_owner_of_another_user_gets_no_call() {
    let Some(folder) = shared() else { return };
    let path = |name: &str| folder.path().join(name);
    let (pool, theirs) = (path("pool"), path("theirs"));
    let binary = binary_for_all(&folder);
    let mut up = as_nobody(&binary);
    up.args(["up", "--no-mount", "--no-attach", "--size", "16M", "--pool"]).arg(&theirs);
    let server = Server::of(up.env("HOME", folder.path()), &theirs, "Ctrl-C ends it.");
    fs::write(path("content"), "secret").expect("written");
    let said = refused(ferrite().args(["tag", "put", text(&theirs), "t", text(&path("content"))]), 1);
    assert!(said.contains("--trust-owner nobody"), "{said}");
    let listed = ok(&["tag", "list", text(&theirs), "--trust-owner", "nobody"]);
    assert!(!listed.contains("t   "), "{listed}");
    server.interrupt();

    ok(&["pool", "create", text(&pool), "--size", "16M"]);
    let listening = "import socket,time; s = socket.socket(socket.AF_UNIX); s.bind('pool.sock'); s.listen(); \
                     print('listens', flush=True); time.sleep(99)";
    let mut fake = as_nobody("python3").args(["-c", listening]).current_dir(&folder).spawn().expect("python3 starts");
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        path("pool.sock").exists()
    }));
    let server = Server::start(&pool, &["--no-attach", "--no-disk"]);
    ok(&["tag", "put", text(&pool), "t", text(&path("content"))]);
    assert_eq!(json(&["pool", "info", text(&pool)])["owner_pid"], server.pid());
    server.interrupt();
    end(&mut fake);
}

fn end(child: &mut Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

/// Another user can lock any readable folder. Ferrite does not wait for such a lock.
#[test]
fn a_folder_that_another_user_has_locked_is_served_from() {
    let Some(folder) = shared() else { return };
    let pool = folder.path().join("pool");
    let mut locking =
        as_nobody("flock").arg("-F").arg(folder.path()).args(["sleep", "99"]).spawn().expect("flock starts");
    let is_locked = || File::open(folder.path()).expect("opened").try_lock().is_err();
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_locked()
    }));
    let server = Server::start(&pool, &["--no-attach", "--size", "16M"]);
    assert_eq!(json(&["pool", "info", text(&pool)])["owner_pid"], server.pid());
    signal(server.pid(), "INT");
    assert!(server.ended().is_some(), "it does not end");
    // If all users may read a pool, another user can lock it, and the refusal names the process.
    fs::set_permissions(&pool, Permissions::from_mode(0o644)).expect("its mode");
    let mut holding = as_nobody("flock").arg("-F").arg(&pool).args(["sleep", "99"]).spawn().expect("flock starts");
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        File::open(&pool).expect("opened").try_lock().is_err()
    }));
    let said = refused(ferrite().args(["up", "--no-mount", "--no-attach", "--pool"]).arg(&pool), 1);
    assert!(said.contains(&format!("held by process {}", holding.id())), "{said}");
    end(&mut locking);
    end(&mut holding);
}
