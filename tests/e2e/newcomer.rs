//! The first ten minutes: the commands of README.md from top to bottom, and the commands that find, show and stop a
//! server.
//!
//! Each test has its own PID namespace, so that commands find no other server of this machine.

mod readme;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::programs::{client, ferrite_path};
use crate::server::{folder, refused, run};

/// A user with a private home, and with private process ids and mounts, as if on a separate machine.
pub struct Newcomer {
    folder: TempDir,
    /// A process whose end also ends all processes in the namespace.
    namespace: Child,
    /// The first process in the namespace.
    inside: u32,
    user: Option<u32>,
}

/// The unprivileged user.
pub const NOBODY: u32 = 65534;

impl Newcomer {
    /// Makes a namespace and runs `setup` there first, in a shell. Returns `None` if this user may not make one.
    pub fn new(user: Option<u32>, setup: &str) -> Option<Self> {
        let folder = folder(true);
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
        open(folder.path());
        for name in ["home", "bin"] {
            fs::create_dir(folder.path().join(name)).expect("made");
        }
        let program = folder.path().join("bin/ferrite");
        fs::copy(ferrite_path(), &program).expect("copied");
        open(&program);
        if let Some(user) = user {
            let own = std::os::unix::fs::chown(folder.path().join("home"), Some(user), Some(user));
            own.ok().or_else(|| skipped("only root becomes another user"))?;
        }
        let mut unshare = client("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--propagation", "private"]);
        // Programs of the page make files in /tmp, which this machine may have closed to other users.
        let tmp = "mount -t tmpfs -o mode=1777 tmpfs /tmp";
        unshare.args(["sh", "-c", &format!("{tmp}\n{setup}\necho ready; exec sleep infinity")]);
        let mut namespace = unshare.stdout(Stdio::piped()).spawn().expect("unshare starts");
        let mut ready = [0; 6];
        let output = namespace.stdout.as_mut().expect("piped");
        if std::io::Read::read_exact(output, &mut ready).is_err() {
            let _ = namespace.wait();
            return skipped("only root makes namespaces");
        }
        let pid = namespace.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("a child");
        let inside = children.trim().parse().expect("one child");
        Some(Self { folder, namespace, inside, user })
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command that runs `line` in a shell of this user, in the user's home.
    pub fn shell(&self, line: &str) -> Command {
        let mut command = client("nsenter");
        command.args(["--mount", "--pid", "--target", &self.inside.to_string()]);
        if let Some(user) = self.user.map(|user| user.to_string()) {
            command.args(["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.at("bin").display());
        command.args(["env", "--ignore-environment"]).arg(format!("PATH={path}"));
        command.arg(format!("HOME={}", self.at("home").display()));
        command.args(["sh", "-c", "cd && eval \"$0\"", line]);
        command
    }

    /// Returns the output of `line`, which must succeed.
    pub fn run(&self, line: &str) -> String {
        run(&mut self.shell(line))
    }

    /// Returns the messages of `line`, which must fail with `status`.
    pub fn refused(&self, line: &str, status: i32) -> String {
        refused(&mut self.shell(line), status)
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.run("ferrite status --json")).expect("JSON")
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

fn skipped<T>(why: &str) -> Option<T> {
    println!("skipped: {why}");
    None
}

const UP: &str = "--size 64M --no-mount --no-attach";

#[test]
fn a_pool_that_is_left_out_is_the_one_that_is_served() {
    let Some(here) = Newcomer::new(None, "") else { return };
    here.run(&format!("ferrite up --pool one {UP} --detach"));
    assert!(here.run("ferrite disk list").contains("disk0"));
    here.run("ferrite disk create one d --size 1.5M");
    assert!(here.run("ferrite disk stat d").contains("1.5 MiB"));
    assert!(here.run("ferrite disk stat --pool one d").contains("1.5 MiB"));
    here.run("echo hello | ferrite tag put greeting");
    assert_eq!(here.run("ferrite tag get greeting"), "hello\n");
    assert!(here.run("ferrite pool check").contains("sound"));
    // The environment variable has precedence.
    here.run("ferrite pool create two --size 32M");
    assert_eq!(here.run("FERRITE_POOL=two ferrite disk list"), "");
    // If two pools are served, neither is the default.
    here.run(&format!("ferrite up --pool two {UP} --no-disk --detach"));
    let said = here.refused("ferrite disk list", 2);
    assert!(said.contains("2 pools are served") && said.contains("home/one") && said.contains("home/two"), "{said}");
    here.run("ferrite down one");
    assert_eq!(here.run("ferrite disk list"), "");
    here.run("ferrite down");
    // If no pool is served, the default is the pool of `ferrite up`.
    assert!(here.refused("ferrite disk list", 1).contains("home/.local/share/ferrite/pool"));
}

/// Commands that make or destroy have no default pool, and a wrong word order gets a message with the right one.
#[test]
fn a_wrong_order_of_words_gets_the_right_command() {
    let Some(here) = Newcomer::new(None, "") else { return };
    here.run(&format!("ferrite up --pool one {UP} --detach"));
    let pool = here.at("home/one");
    let pool = pool.display();
    for (line, right) in [
        ("ferrite disk create d0 one --size 1M", "`ferrite disk create one d0 --size 1M`"),
        ("ferrite tag put name one", "`ferrite tag put one name`"),
        ("ferrite fs mount files one mnt", "`ferrite fs mount one files mnt`"),
        ("ferrite disk stat one", "the NAME behind it is missing: `ferrite disk stat one NAME`"),
    ] {
        let said = here.refused(line, 2);
        assert!(said.contains(right), "{line}: {said}");
    }
    for (line, right) in [
        ("ferrite disk create d0 --size 1M", format!("`ferrite disk create {pool} d0 --size 1M`")),
        ("ferrite disk remove disk0", format!("`ferrite disk remove {pool} disk0`")),
        ("ferrite tag remove t", format!("`ferrite tag remove {pool} t`")),
        ("ferrite fs create f", format!("`ferrite fs create {pool} f`")),
        ("ferrite wal forget a.db", format!("`ferrite wal forget {pool} a.db`")),
        ("ferrite pool check --repair", format!("`ferrite pool check --repair {pool}`")),
    ] {
        let said = here.refused(line, 2);
        assert!(said.contains("name the pool") && said.contains(&right), "{line}: {said}");
    }
    assert!(here.run("ferrite disk list").contains("disk0"), "nothing was removed");
    here.run("ferrite down");
}

#[test]
fn status_shows_what_is_served_and_down_ends_it() {
    let Some(here) = Newcomer::new(None, "") else { return };
    assert!(here.run("ferrite status").contains("nothing is served"));
    assert!(here.refused("ferrite down one", 1).contains("there is no"));
    let announced = here.run(&format!("ferrite up --pool one {UP} --detach"));
    assert!(announced.contains("`ferrite down ") && !announced.contains("Ctrl-C"), "{announced}");
    let log = announced.lines().find_map(|line| line.strip_prefix("log ")).expect("a log").trim();
    let status = here.status();
    let pool = &status["pools"][0];
    assert_eq!(pool["path"], here.at("home/one").to_str().expect("text"));
    assert_eq!((&pool["log"], &pool["total_bytes"]), (&log.into(), &(64 << 20).into()));
    assert_eq!((&pool["disks"][0]["name"], &pool["disks"][0]["in_use"]), (&"disk0".into(), &false.into()));
    let text = here.run("ferrite status");
    let pid = format!("process {}", pool["owner_pid"]);
    assert!(text.contains(&pid) && text.contains("disk0") && text.contains(log), "{text}");
    let said = here.run("ferrite down");
    assert!(said.contains(&pid) && said.contains("has ended"), "{said}");
    assert_eq!(here.status()["pools"], serde_json::json!([]));
    assert!(here.refused("ferrite down one", 1).contains("no process serves"));
    assert!(!here.run("ferrite up --pool one --no-mount --no-attach --detach").contains("recovered"), "in order");
    here.run("ferrite down");
}

/// `down` neither finds nor stops the server of another user.
#[test]
fn down_ends_no_other_users_server() {
    let Some(root) = Newcomer::new(None, "") else { return };
    root.run(&format!("ferrite up --pool one {UP} --detach"));
    let one = root.at("home/one");
    let nobody = format!("setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups env HOME=/nonexistent ferrite");
    let said = root.refused(&format!("{nobody} down {}", one.display()), 1);
    assert!(said.contains("not yours") || said.contains("another user"), "{said}");
    assert!(root.run(&format!("{nobody} status")).contains("nothing is served"));
    root.run("ferrite down");
}

/// The command that starts a detached server prints the server's early messages, and exits with its status.
#[test]
fn a_detached_server_that_fails_says_why() {
    let Some(here) = Newcomer::new(None, "") else { return };
    let said = here.refused("ferrite up --pool small --size 1K --detach", 2);
    assert!(said.contains("8 MiB at least"), "{said}");
    fs::write(here.at("home/text"), "no pool").expect("written");
    let said = here.refused("ferrite up --pool text --no-mount --detach", 1);
    assert!(said.contains("is no pool"), "{said}");
    assert_eq!(here.status()["pools"], serde_json::json!([]));
    assert!(here.refused("ferrite up --detach --run true", 2).contains("cannot be used with"));
}

#[test]
fn a_command_beside_a_server_has_the_pool_and_gives_its_status() {
    let Some(here) = Newcomer::new(None, "") else { return };
    let up = format!("ferrite up --pool one {UP} --run");
    assert_eq!(here.run(&format!("{up} sh -c 'ferrite disk list | cut -d\" \" -f1'")), "disk0\n");
    here.refused(&format!("{up} sh -c 'exit 7'"), 7);
    here.refused(&format!("{up} sh -c 'kill -KILL $$'"), 137);
    assert!(here.refused(&format!("{up} no-such-program"), 1).contains("starting no-such-program"));
    // The command gets Ctrl-C first: the terminal sends the signal to both processes.
    let line =
        format!("{up} sh -c 'trap \"ferrite disk list >/dev/null && echo served; exit 3\" INT; kill -INT 0; sleep 5'");
    let output = here.shell(&format!("exec setsid --wait {line}")).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(3), "served\n"));
    // The server forwards SIGTERM to the command, also from `ferrite down`.
    let line = format!("{up} sh -c 'trap \"echo told; exit 4\" TERM; ferrite down one & wait $!; wait'");
    let said = here.refused(&line, 4);
    assert!(said.contains("told"), "{said}");
    assert_eq!(here.status()["pools"], serde_json::json!([]));
    assert!(here.run("ferrite pool check one").contains("sound"));
}
