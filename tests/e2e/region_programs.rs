//! Programs that have a guest in their address space, by `ferrite guest run`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::programs::{client, ferrite};
use crate::server::{Server, folder, json, ok, refused, wait};

/// Bytes of the guest; the pool has a sixth of its pages.
const SIZE: usize = 24 << 20;

/// A program that maps the guest, forks, and stores to half of its pages. It stores to the others when it reads a line,
/// and kills itself.
const PROGRAM: &str = r#"
import mmap, os, sys, signal
f = os.open(sys.argv[1], os.O_RDWR)
assert os.fstat(f).st_size == int(os.environ["FERRITE_REGION_BYTES"])
try:
    mmap.mmap(f, 4096)
    sys.exit("a part was mapped")
except OSError:
    pass
m = mmap.mmap(f, 0)
try:
    os.write(f, b"x")
    sys.exit("the file was written to")
except PermissionError:
    pass
if os.fork() == 0:
    os._exit(0)
os.wait()
half = len(m) // 4096 // 2
m[:half * 4096:4096] = bytes(1 + page % 251 for page in range(half))
print("stored", flush=True)
sys.stdin.readline()
m[half * 4096::4096] = bytes(1 + page % 251 for page in range(half, 2 * half))
os.kill(os.getpid(), signal.SIGKILL)
"#;

/// Makes a pool with the guest "g". Returns `None` if this machine reports no faults to programs.
fn new_guest(folder: &Path) -> Option<(String, String)> {
    let at = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let (pool, image) = (at("pool"), at("image"));
    ok(&["pool", "create", &pool, "--size", "32M"]);
    json(&["guest", "create", &pool, "g", "--size", "24M", "--pm", "4M", "--disk", &image]);
    let maps = "import mmap, os, sys; mmap.mmap(os.open(os.environ['FERRITE_REGION'], 2), 0)";
    let tried = guest_run(&pool, &["python3", "-c", maps]).output().expect("it runs");
    let said = String::from_utf8_lossy(&tried.stderr);
    if said.contains("userfaultfd") {
        println!("skipped: {said}");
        return None;
    }
    assert!(tried.status.success(), "{said}");
    Some((pool, image))
}

fn guest_run(pool: &str, program: &[&str]) -> Command {
    let mut command = ferrite();
    command.args(["guest", "run", pool, "g", "--"]).args(program);
    command
}

/// Starts the program, and returns when it has stored to half of the guest.
fn stored_to_half(pool: &str) -> Child {
    let mut command = guest_run(pool, &["python3", "-c", PROGRAM, "{}"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "stored\n");
    child
}

/// Flushes the guest, and asserts that its image has what the program stored.
fn assert_stored(pool: &str, image: &str) {
    // The grant of a killed program ends with it.
    ok(&["guest", "flush", pool, "g"]);
    let image = fs::read(image).expect("read");
    for page in 0..SIZE / 4096 {
        assert_eq!(image[page * 4096], 1 + (page % 251) as u8, "page {page}");
    }
    ok(&["pool", "check", pool]);
}

/// Acceptance of the design: a program is killed, and the owner of its pool too; every byte comes into the image.
#[test]
fn kill_of_a_program_and_of_its_owner_loses_no_store() {
    let folder = folder(true);
    let Some((pool, image)) = new_guest(folder.path()) else { return };
    let server = Server::start(pool.as_ref(), &["--no-disk", "--no-attach"]);
    let mut child = stored_to_half(&pool);
    let stat = || json(&["guest", "stat", &pool, "g"]);
    assert!(stat()["pid"].as_u64().is_some());
    // The program publishes its counts a moment after its first store.
    let is_counted = || stat()["counts"]["truth_frames"].as_u64() > Some(0);
    assert!((0..500).any(|_| is_counted() || {
        std::thread::sleep(Duration::from_millis(10));
        false
    }));
    assert!(refused(ferrite().args(["guest", "flush", &pool, "g"]), 1).contains("in use by process"));
    server.kill();
    // The next owner finds the grant, and leaves the guest to the program.
    let server = Server::start(pool.as_ref(), &["--no-disk", "--no-attach"]);
    assert!(refused(&mut guest_run(&pool, &["true"]), 1).contains("in use by process"));
    child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    assert_eq!(child.wait().expect("a child of ours").code(), Some(128 + 9), "the program's own end");
    assert_stored(&pool, &image);
    server.interrupt();
}

/// The command owns a pool that no process serves. It is killed, and the program goes on.
#[test]
fn kill_of_the_command_leaves_the_program_its_guest() {
    let folder = folder(true);
    let Some((pool, image)) = new_guest(folder.path()) else { return };
    let mut child = stored_to_half(&pool);
    let stat = json(&["guest", "stat", &pool, "g"]);
    let program = stat["pid"].as_u64().expect("its process");
    let mut input = child.stdin.take().expect("piped");
    child.kill().expect("killed");
    child.wait().expect("ended");
    input.write_all(b"\n").expect("it reads");
    let mut waiting = client("tail").args(["-f", "/dev/null", &format!("--pid={program}")]).spawn().expect("it starts");
    assert_eq!(wait(&mut waiting, Duration::from_secs(30)), Some(0), "the program ended");
    assert_stored(&pool, &image);
}
