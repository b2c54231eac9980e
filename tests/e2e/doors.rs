//! Attacks of one user on another through the services of Ferrite. docs/security.md names these tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::direct::{direct, python};
use crate::mount::{Place, start};
use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, ok, refused, run};

/// The id of a user that is not root.
const OTHER: u32 = 12345;

/// Returns `program` as a command of that user.
fn as_other(program: &str) -> Command {
    let mut command = client("setpriv");
    command.args(["--reuid", "12345", "--regid", "12345", "--clear-groups", program]);
    command
}

/// Returns `command` of a user who trusts that user's pools and pools that others may write to.
fn trusting(mut command: Command) -> Command {
    command.env("FERRITE_TRUST_OWNER", OTHER.to_string()).env("FERRITE_TRUST_WRITABLE", "1");
    command
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its owner may");
}

/// Fills the file system at `at` with files that would give any user root's rights.
fn plant(at: &Path) {
    let program = at.join("id");
    fs::copy(["/usr/bin/id", "/bin/id"].iter().find(|path| Path::new(path).exists()).expect("a program"), &program)
        .expect("copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("set");
    run(client("mknod").args(["-m", "666"]).arg(at.join("null")).args(["c", "1", "3"]));
}

fn options(at: &Path) -> String {
    let listed = fs::read_to_string("/proc/self/mountinfo").expect("listed");
    let line = listed.lines().find(|line| line.split(' ').nth(4) == at.to_str()).expect("it is mounted");
    line.split(' ').nth(5).expect("options").to_owned()
}

/// Root's mount of a pool that another user can write to gives no user root's rights, and no option changes that.
#[test]
fn a_pool_of_another_user_gives_no_rights_when_root_mounts_it() {
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    open_to_all(folder.path());
    let server = start(&pool, &at, &["--size", "64M", "--no-disk", "--allow-other", "--suid", "--dev"]);
    open_to_all(&at);
    plant(&at);
    // The mount gives these rights if the pool is root's own and root asked for them.
    let user = run(as_other(at.join("id").to_str().expect("text")).arg("-u"));
    assert_eq!((user.trim(), options(&at).contains("nosuid")), ("0", false));
    run(as_other("cat").arg(at.join("null")));
    server.interrupt();
    chown(&pool, Some(OTHER), Some(OTHER)).expect("root may");
    let mut command = trusting(ferrite());
    command.args(["up", "--no-attach", "--no-disk", "--allow-other", "--pool"]).arg(&pool).arg("--mount").arg(&at);
    let server = Server::of(&mut command, &pool, "Ctrl-C ends it.");
    let options = options(&at);
    assert!(options.contains("nosuid") && options.contains("nodev"), "{options}");
    let user = run(as_other(at.join("id").to_str().expect("text")).arg("-u"));
    assert_eq!(user.trim(), "12345");
    assert!(!as_other("cat").arg(at.join("null")).output().expect("it runs").status.success());
    server.interrupt();
    for lifted in ["--suid", "--dev"] {
        let said = refused(trusting(ferrite()).args(["fs", "mount"]).arg(&pool).arg("files").arg(&at).arg(lifted), 1);
        assert!(said.contains("must belong to root"), "{said}");
    }
}

/// Other users leave 5 %, or the share in `--reserve`, to root.
#[test]
fn other_users_leave_a_share_of_the_pool_to_root() {
    for (words, percent) in [(&["--allow-other"][..], 5), (&["--allow-other", "--reserve", "25"], 25), (&[], 0)] {
        let Some(Place { folder, pool, at }) = Place::new() else { return };
        open_to_all(folder.path());
        let server = start(&pool, &at, &[&["--size", "64M", "--no-disk"], words].concat());
        let numbers = run(client("stat").args(["-f", "-c", "%b %f %a"]).arg(&at));
        let numbers: Vec<u64> = numbers.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        let kept = (numbers[1] - numbers[2]) * 100 / numbers[0].max(1);
        assert!(kept.abs_diff(percent) <= 1, "{words:?}: {numbers:?}");
        if percent > 0 {
            fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).expect("its owner may");
            let fill =
                as_other("dd").arg("if=/dev/zero").arg(format!("of={}/fill", at.display())).arg("bs=64k").output();
            let said = fill.expect("it runs").stderr;
            assert!(String::from_utf8_lossy(&said).contains("No space left"), "{words:?}");
            fs::write(at.join("roots"), vec![1; 1 << 20]).expect("there is space for root");
        }
        server.interrupt();
        assert_sound(&pool);
    }
}

/// A program that maps a pool dies if the file is shortened, so root's programs map no pool that another user can
/// shorten. The same holds if root trusts that user's data.
#[test]
fn a_program_maps_no_pool_that_another_user_can_shorten() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    fs::write(place.at.join("file"), [7; 4096]).expect("written");
    let script = "import os, sys\nf = os.open(sys.argv[1] + '/file', os.O_RDONLY)\n\
                  print(sum(os.pread(f, 9, 0) == bytes([7] * 9) for _ in range(100)))";
    let reads = || {
        let mut command = trusting(direct(&python(script, &place.at), &["--stat", "--json"]));
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let counts = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
        (String::from_utf8_lossy(&output.stdout).into_owned(), counts.unwrap_or_else(|| panic!("{said}")))
    };
    let directly = |counts: &serde_json::Value| counts["direct"]["calls"].as_u64().expect("counted") > 50;
    let (read, counts) = reads();
    assert!(read == "100\n" && directly(&counts), "{counts}");
    for (user, mode) in [(OTHER, 0o600), (0, 0o620), (0, 0o602)] {
        chown(&place.pool, Some(user), None).expect("root may");
        fs::set_permissions(&place.pool, fs::Permissions::from_mode(mode)).expect("root may");
        let (read, counts) = reads();
        assert!(read == "100\n" && !directly(&counts), "{user} {mode:o}: {counts}");
        let message = trusting(ferrite()).args(["run", "--", "ls"]).arg(&place.at).output().expect("it runs");
        let message = String::from_utf8_lossy(&message.stderr);
        assert_eq!(message.matches("could end the program by shortening it").count(), 1, "{message}");
    }
    chown(&place.pool, Some(0), None).expect("root may");
    fs::set_permissions(&place.pool, fs::Permissions::from_mode(0o600)).expect("root may");
    assert!(directly(&reads().1));
    server.interrupt();
    assert_sound(&place.pool);
}

/// Forty clients request 32 MiB each by 28 bytes, and read none of it. They cost little of the server's memory, and the
/// server still serves another client.
#[test]
fn slow_readers_take_little_memory() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "128M", "--disk", "d=64M", "--tcp", "127.0.0.1:0"]);
    let uri = server.lines.iter().find_map(|line| line.split_whitespace().find(|it| it.starts_with("nbd://")));
    let port = uri.and_then(|uri| uri.rsplit_once(':')?.1.split('/').next()).expect("a port").to_owned();
    let script = r#"
import socket, struct, sys
def client():
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    def take(n):
        data = b""
        while len(data) < n:
            more = s.recv(n - len(data))
            assert more
            data += more
        return data
    take(18)
    s.sendall(struct.pack(">IQII", 3, 0x49484156454F5054, 1, 1) + b"d")
    take(10)
    return s, take
def read(s, size): s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, 0, size))
s, take = client()
for at in range(0, 64 << 20, 1 << 20):
    s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 1, at, 1 << 20) + b"x" * (1 << 20))
    take(16)
slow = [client() for _ in range(40)]
for it, _ in slow: read(it, 32 << 20)
for _, take_of in slow: take_of(16)
# All have their heads, so all that is gathered is gathered; and another one is served.
read(s, 32 << 20)
take(16)
assert take(32 << 20) == b"x" * (32 << 20)
for line in open("/proc/%s/status" % sys.argv[2]):
    if line.startswith("RssAnon"): print(line.split()[1])
"#;
    let said = run(client("python3").args(["-c", script, &port, &server.pid().to_string()]));
    let kib: u64 = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
    assert!(kib < 200 << 10, "{kib} KiB");
    server.interrupt();
}

/// An address that any machine may reach requires an option that names the permitted machines. An address of this
/// machine is open to all its users, and the server prints that.
#[test]
fn a_network_is_served_only_where_something_guards_it() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let path = pool.to_str().expect("text");
    ok(&["pool", "create", path, "--size", "32M"]);
    ok(&["disk", "create", path, "d", "--size", "1M"]);
    let said = refused(ferrite().args(["disk", "serve", path, "d", "--tcp", "0.0.0.0:0"]), 2);
    assert!(said.contains("--allow") && said.contains("--tls-cert"), "{said}");
    let mut command = ferrite();
    command.args(["disk", "serve", path, "d", "--tcp", "127.0.0.1:0", "--json"]).stderr(Stdio::piped());
    let mut server = Server::of(&mut command, &pool, "\"disks\"");
    server.said_until("every user of this machine can read and write");
    server.interrupt();
    let allowed = ["disk", "serve", path, "d", "--tcp", "0.0.0.0:0", "--allow", "127.0.0.1"];
    Server::start_as_program(&allowed).interrupt();
}

/// The kernel does not report `noatime` to the server, but reports `O_NOATIME`: docs/mount.md says so.
#[test]
fn noatime_of_a_remount_changes_nothing() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let file = place.at.join("file");
    fs::write(&file, b"content").expect("written");
    run(client("mount").args(["-i", "-o", "remount,bind,noatime"]).arg(&place.at));
    assert!(options(&place.at).contains("noatime"));
    // The read bypasses the kernel's cache, so that the kernel asks the server.
    let read = |more: &str| {
        let script = format!(
            "import os, sys\nf = os.open(sys.argv[1] + '/file', os.O_RDONLY | os.O_DIRECT{more})\nos.pread(f, 7, 0)"
        );
        run(&mut python(&script, &place.at));
        run(client("stat").args(["-c", "%X"]).arg(&file)).trim().parse::<u64>().expect("seconds")
    };
    run(client("touch").args(["-a", "-d", "@1000000000"]).arg(&file));
    assert_eq!(read(" | os.O_NOATIME"), 1_000_000_000);
    assert!(read("") > 1_000_000_000, "the server notes it");
    server.interrupt();
}
