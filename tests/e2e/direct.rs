//! Programs under `ferrite run`: their results are the same as without it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::kill::number;
use crate::mount::{Place, start};
use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, refused, run};

/// A script of system calls on file descriptors.
const CALLS: &str = include_str!("direct/calls.py");
/// A script of random system calls of two alternating processes. Its arguments are a folder, a seed and the number of
/// turns.
const CHANCE: &str = include_str!("direct/chance.py");
/// A script that runs common programs in the given folder.
const SHELL: &str = include_str!("direct/programs.sh");
/// Returns a command that runs `program` under `ferrite run`.
pub fn direct(program: &Command, words: &[&str]) -> Command {
    let mut command = ferrite();
    command.arg("run").args(words).arg("--").arg(program.get_program()).args(program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    command
}

/// Runs `program` under `ferrite run`, and returns its output.
pub fn run_directly(program: &mut Command) -> String {
    run(&mut direct(program, &[]))
}

pub fn python(script: &str, at: &Path) -> Command {
    let mut program = client("python3");
    program.args(["-c", script]).arg(at);
    program
}

/// Runs `program` under `ferrite run`, and returns its output and the counted calls.
pub fn counted(program: &Command) -> (String, Value) {
    let mut command = direct(program, &["--stat", "--json"]);
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    let counts = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
    (String::from_utf8_lossy(&output.stdout).into(), counts.unwrap_or_else(|| panic!("{said}")))
}

#[track_caller]
fn assert_direct(counts: &Value) {
    assert!(counts["direct"]["bytes"].as_u64() > Some(0), "nothing went directly: {counts}");
}

#[test]
fn calls_have_the_same_results_directly() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let plain = run(&mut python(CALLS, &place.at));
    let (message, counts) = counted(&python(CALLS, &place.at));
    assert_eq!(message, plain);
    assert_direct(&counts);
    println!("{counts}");
    server.interrupt();
    assert_sound(&place.pool);
}

/// `dd` opens its files as standard input and standard output.
#[test]
fn dd_reads_and_writes_directly() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let (from, to) = (place.at.join("from"), place.at.join("to"));
    let content: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&from, &content).expect("written");
    let mut program = client("dd");
    program.arg(format!("if={}", from.display())).arg(format!("of={}", to.display())).arg("bs=4k");
    let (_, counts) = counted(&program);
    assert!(std::fs::read(&to).expect("read") == content, "the copy is another");
    assert!(counts["direct"]["bytes"].as_u64() > Some(3 * content.len() as u64 / 2), "of both most: {counts}");
    server.interrupt();
    assert_sound(&place.pool);
}

/// The kernel's list of mounts contains no symbolic links.
#[test]
fn a_mount_behind_a_symbolic_link_is_direct_and_is_cleared_and_unmounted() {
    let Some(mut place) = Place::new() else { return };
    let (real, link) = (place.at.clone(), place.at.with_file_name("link"));
    std::fs::create_dir(&real).expect("made");
    std::os::unix::fs::symlink(&real, &link).expect("made");
    place.at = link.join("mnt");
    let copied = "import os, sys\nfd = os.open(sys.argv[1] + '/f', os.O_CREAT | os.O_WRONLY)\n\
        for i in range(100): os.write(fd, b'x')";
    for is_killed in [true, false] {
        let server = Server::start(&place.pool, &["--no-attach", "--mount", place.at.to_str().expect("text")]);
        assert_direct(&counted(&python(copied, &place.at)).1);
        if is_killed {
            server.kill();
        } else {
            server.interrupt();
        }
    }
    assert!(std::fs::read_dir(real.join("mnt")).expect("there").next().is_none(), "still mounted");
    assert_sound(&place.pool);
}

/// Returns the results of the random calls of `seed` in a new folder in `at`.
fn told_by_chance(seed: u64, at: &Path, directly: bool) -> String {
    let at = at.join(format!("{seed}-{directly}"));
    std::fs::create_dir(&at).expect("made");
    let mut program = python(CHANCE, &at);
    program.args([&seed.to_string(), "30"]);
    if directly { run_directly(&mut program) } else { run(&mut program) }
}

/// The results on the kernel's own tmpfs are the reference.
#[test]
fn calls_by_chance_have_the_same_results_directly() {
    let Some(place) = Place::new() else { return };
    let own = folder(true);
    let server = place.start();
    let seed = number("FERRITE_SEED", 1);
    for seed in seed..seed + number("FERRITE_ROUNDS", 8) {
        let wanted = told_by_chance(seed, own.path(), false);
        for directly in [false, true] {
            let message = told_by_chance(seed, &place.at, directly);
            let differs = wanted.lines().zip(message.lines()).find(|(wanted, message)| wanted != message);
            assert!(message == wanted, "FERRITE_SEED={seed}, directly: {directly}: {differs:?}");
        }
    }
    server.interrupt();
    assert_sound(&place.pool);
}

const ENDS: &str = r#"
import os, sys
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
for i in range(100): os.write(fd, b"x" * 100)
for i in range(100):
    os.ftruncate(fd, 5000 - i)
    assert os.fstat(fd).st_size == 5000 - i
log = os.open(sys.argv[1] + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for i in range(100): os.writev(log, [b"one ", b"two\n"])
"#;

#[test]
fn what_is_told_of_a_file_its_end_and_parts_that_are_appended_are_direct() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let (_, counts) = counted(&python(ENDS, &place.at));
    assert!(counts["mount"]["calls"].as_u64() < Some(30), "{counts}");
    assert!(counts["direct"]["calls"].as_u64() > Some(370), "{counts}");
    server.interrupt();
    assert_sound(&place.pool);
}

/// Runs four threads that start at once and share one descriptor.
const THREADS: &str = r#"
import os, sys, threading
fd = os.open(sys.argv[1] + "/" + sys.argv[2], os.O_RDWR | os.O_CREAT | (os.O_APPEND if sys.argv[2] == "appended" else 0))
gate = threading.Barrier(4)
def write(mine):
    gate.wait()
    for i in range(500): os.writev(fd, [mine[:30], mine[30:]]) if sys.argv[2] == "parts" else os.write(fd, mine)
crew = [threading.Thread(target=write, args=(bytes([65 + number]) * 100,)) for number in range(4)]
[thread.start() for thread in crew]
[thread.join() for thread in crew]
content = os.pread(fd, 300000, 0)
assert all(content[at:at + 100] == content[at:at + 1] * 100 for at in range(0, 200000, 100))
assert [content.count(bytes([65 + number])) for number in range(4)] == [50000] * 4
"#;

/// If one thread went through the mount while another requests a lease, the owner would revoke the lease of all
/// threads.
#[test]
fn threads_that_write_a_new_file_at_once_do_so_directly() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    for how in ["written", "appended", "parts"] {
        let (_, counts) = counted(python(THREADS, &place.at).arg(how));
        assert!(counts["direct"]["calls"].as_u64() > Some(1000), "{how}: {counts}");
    }
    server.interrupt();
    assert_sound(&place.pool);
}

/// Parent and child write by different descriptors. The script prints nothing.
const CHILDREN: &str = r#"
import os, sys
def write(fd):
    for i in range(100): os.pwrite(fd, b"%03d" % i, i * 3)
path = sys.argv[1] + "/" + sys.argv[2]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.set_inheritable(fd, True)
child = os.fork()
if child == 0:
    if sys.argv[2] == "own": write(os.open(path, os.O_RDWR))
    if sys.argv[2] == "inherited": write(fd)
    if sys.argv[2] == "passed":
        os.execlp("python3", "python3", "-c", f"import os; [os.write({fd}, b'%03d' % i) for i in range(100)]")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert open(path, "rb").read() == b"".join(b"%03d" % i for i in range(100))
assert os.lseek(fd, 0, os.SEEK_CUR) == (300 if sys.argv[2] == "passed" else 0)
"#;

/// LD2, LD6: files that a child opens are direct, and inherited descriptors are the kernel's, also across exec.
#[test]
fn children_are_direct_with_what_they_open() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    for (whose, is_direct) in [("own", true), ("inherited", false), ("passed", false)] {
        let (_, counts) = counted(python(CHILDREN, &place.at).arg(whose));
        assert_eq!(counts["direct"]["calls"].as_u64() > Some(80), is_direct, "{whose}: {counts}");
    }
    server.interrupt();
    assert_sound(&place.pool);
}

/// Makes children by calls that the library cannot prepare for. Each child runs its exit handlers, and lacks its
/// thread's session in the parent's pool.
const PLAIN_CHILDREN: &str = r#"
import ctypes, os, signal, sys
c = ctypes.CDLL(None)
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
for i in range(100): os.pwrite(fd, b"%03d" % i, i * 3)
for make in c._Fork, lambda: c.syscall(56, signal.SIGCHLD, 0, 0, 0, 0):
    child = make()
    if child == 0: c.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"#;

/// LD6 holds however a program makes its child.
#[test]
fn a_child_for_which_nothing_was_prepared_ends_as_it_says() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    assert_direct(&counted(&python(PLAIN_CHILDREN, &place.at)).1);
    server.interrupt();
    assert_sound(&place.pool);
}

#[test]
fn programs_have_the_same_results_directly() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let mut program = client("bash");
    program.args(["-ec", SHELL, "bash"]).arg(&place.at);
    let plain = run(&mut program);
    let (message, counts) = counted(&program);
    assert_eq!(message, plain);
    assert_direct(&counts);
    println!("{counts}");
    server.interrupt();
    assert_sound(&place.pool);
}

#[test]
fn fsx_finds_nothing_directly() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let seed = number("FERRITE_SEED", 1).to_string();
    // A mapped file is the kernel's, so one run omits mappings.
    let settings = place.pool.with_extension("toml");
    std::fs::write(&settings, "[weights]\nmapread = 0\nmapwrite = 0\ninvalidate = 0\n").expect("written");
    for words in [&[][..], &["-f", settings.to_str().expect("text")]] {
        let mut program = client("fsx");
        program.args(["-N", "3000", "-S", &seed]).args(words).arg(place.at.join("file"));
        let (_, counts) = counted(&program);
        println!("{counts}");
        if !words.is_empty() {
            assert_direct(&counts);
        }
    }
    server.interrupt();
    assert_sound(&place.pool);
}

#[test]
fn what_cannot_be_direct_is_told_and_done() {
    let Some(place) = Place::new() else { return };
    let server = start(&place.pool, &place.at, &["--size", "128M", "--disk", "d=8M", "--cached"]);
    let mut program = client("busybox");
    program.args(["sh", "-c", "echo text > $0/file; cat $0/file"]).arg(&place.at);
    let output = direct(&program, &[]).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "text\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cached") && said.contains("statically linked"), "{said}");
    let (_, counts) = counted(&python("import sys; open(sys.argv[1] + '/file', 'wb', 0).write(b'x')", &place.at));
    assert_eq!(counts["direct"]["calls"], 0, "{counts}");
    server.interrupt();
    // Direct calls do not bypass a server that counts writes or slows them.
    for how in [["--wear", "page"], ["--pace", "optane"]] {
        let server = start(&place.pool, &place.at, &how);
        let program = python("import sys; open(sys.argv[1] + '/file', 'wb', 0).write(b'x')", &place.at);
        let (_, counts) = counted(&program);
        assert_eq!(counts["direct"]["calls"], 0, "{how:?}: {counts}");
        let output = direct(&program, &[]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("used through the mount") && said.contains(how[0]), "{how:?}: {said}");
        server.interrupt();
    }
    assert_sound(&place.pool);
}

/// `run` prints nothing about a mount that the program does not name. About a mount of a pool in a file, it prints what
/// stays as it was.
#[test]
fn only_a_mount_that_the_program_names_is_told_of() {
    let Some(place) = Place::on(false) else { return };
    let server = place.start();
    let said = |program: &Command| {
        let output = direct(program, &[]).output().expect("it starts");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(said(&client("true")), "");
    let message = said(client("ls").arg(&place.at));
    let at = place.at.display();
    assert!(message.contains(&format!("{at} is used through the mount: ")), "{message}");
    assert!(
        message.contains("reads and writes stay system calls") && message.contains("a pool in /dev/shm"),
        "{message}"
    );
    server.interrupt();
}

/// Starts children with files of their own. When each child has written to its file, the children wait for the end of
/// stdin.
const CROWD: &str = r#"
import os, sys
ready, stay = os.pipe(), os.pipe()
for number in range(64):
    if os.fork() == 0:
        os.close(stay[1])
        fd = os.open(f"{sys.argv[1]}/crowd{number}", os.O_RDWR | os.O_CREAT)
        for i in range(20): os.pwrite(fd, b"x" * 100, i * 100)
        os.write(ready[1], b".")
        os.read(stay[0], 1)
        os._exit(0)
for number in range(64): os.read(ready[0], 1)
print("ready", flush=True)
sys.stdin.read()
"#;

/// A pool admits 64 clients. The next client prints a message, and its files are just as correct.
#[test]
fn who_finds_no_place_is_told_and_goes_through_the_mount() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    let mut crowd = direct(&python(CROWD, &place.at), &[]);
    let mut crowd = crowd.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut message = String::new();
    BufReader::new(crowd.stdout.take().expect("piped")).read_line(&mut message).expect("text");
    assert_eq!(message, "ready\n");
    let program = python(ENDS, &place.at);
    let said = told_of(&program);
    assert!(said.contains("all 64 grants are in use") && said.contains("owner refused its programs"), "{said}");
    assert!(said.contains("directly 0 calls"), "{said}");
    drop(crowd.stdin.take());
    crowd.wait().expect("ended");
    assert_direct(&counted(&program).1);
    server.interrupt();
    assert_sound(&place.pool);
}

/// Returns the standard error of `program`, which must succeed.
fn told_of(program: &Command) -> String {
    let output = direct(program, &["--stat"]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into()
}

/// A missing count differs from a count of zero.
#[test]
fn what_no_program_counted_is_not_told_as_zero() {
    let folder = folder(true);
    let [source, program] = ["static.c", "static"].map(|name| folder.path().join(name));
    std::fs::write(&source, "int main(void) { return 0; }").expect("written");
    run(client("gcc").arg("-static").arg("-o").args([&program, &source]));
    let nothing = serde_json::json!({ "direct": null, "mount": null, "refused": null });
    assert_eq!(counted(&client(&program)).1, nothing);
    let message = told_of(&client(&program));
    assert!(message.contains("nothing was counted") && !message.contains("0 calls"), "{message}");
    assert_eq!(counted(&client("true")).1["direct"]["calls"], 0);
    assert!(told_of(&client("true")).contains("0 calls"));
}

#[test]
fn its_exit_status_is_the_programs() {
    let status = |words: &[&str]| {
        let mut program = client("sh");
        program.args(["-c", "exit 7"]);
        direct(&program, words).output().expect("it starts").status.code()
    };
    assert_eq!((status(&[]), status(&["--stat"])), (Some(7), Some(7)));
    let said = refused(ferrite().args(["run", "--", "no-such-program-anywhere"]), 127);
    assert!(said.contains("no-such-program-anywhere"), "{said}");
    refused(ferrite().args(["run", "--", "/"]), 126);
    refused(ferrite().args(["run"]), 2);
}
